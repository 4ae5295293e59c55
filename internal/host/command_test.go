package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/apply"
	"mpps/internal/domain"
	"mpps/internal/goal"
	"mpps/internal/journal"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// program writes a program of a few lines for the shell.
func program(t *testing.T, lines string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "virsh")
	syscall.ForkLock.RLock() // a program that another test starts now would hold the file open for writing: "text file busy"
	err := os.WriteFile(name, []byte("#!/bin/sh\n"+lines+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestChangeInDoubt: of a program that was ended before it was done it is not known what comes of what it asked for; of
// one that ended by itself it is.
func TestChangeInDoubt(t *testing.T) {
	m := &Machine{live: true}
	for name, c := range map[string]struct {
		lines string
		doubt bool
		says  string
	}{
		"hangs":              {"exec sleep 60", true, "deadline exceeded"},
		"its children hang":  {"echo waiting >&2; sleep 3", true, "waiting"},
		"killed by somebody": {"kill -9 $$", true, "killed"},
		"refused":            {"echo no such guest >&2; exit 1", false, "exit status 1: no such guest"},
		"done":               {"cat >/dev/null", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := 10 * time.Second
			if strings.Contains(c.lines, "sleep") {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			err := m.change(ctx, "text", program(t, c.lines))
			if took := time.Since(began); took > patience+commandLinger+time.Second {
				t.Errorf("took %v", took)
			}
			if errors.Is(err, ErrInDoubt) != c.doubt || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("found %v; expected doubt %v and %q", err, c.doubt, c.says)
			}
		})
	}
	if err := m.change(t.Context(), "", filepath.Join(t.TempDir(), "none")); err == nil || errors.Is(err, ErrInDoubt) {
		t.Errorf("a program that is not there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := m.command(ctx, "", program(t, "exec sleep 60")); err == nil || errors.Is(err, ErrInDoubt) {
		t.Errorf("a program that only reads: %v; expected an error without doubt about a write", err)
	}
}

// throughVirsh writes and reads values of one guest through a virsh program.
type throughVirsh struct{ virsh }

func (v throughVirsh) Read(ctx context.Context, a setting.Address) setting.Reading {
	text, err := v.definition(ctx, a.Object(), false)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	doc, err := domain.Parse([]byte(text))
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	r, err := valueIn(doc, a.Rest())
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return r
}

func (v throughVirsh) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return redefine(ctx, v, a.Object(), a.Rest(), to)
}

// TestDefineThatIsLeftBehind: virsh is ended while the daemon still works on what it was given. That is journaled as in
// doubt, not as put back; a rollback finds what came of it and puts that back.
func TestDefineThatIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	definition, pending := filepath.Join(dir, "definition.xml"), filepath.Join(dir, "pending.xml")
	if err := os.WriteFile(definition, []byte(definedXML), 0o644); err != nil {
		t.Fatal(err)
	}
	// The first definition is taken and not answered; what comes later is answered at once. The text of one.. is the
	// argument that holds dumpxml and the mark that is to be echoed behind it.
	path := program(t, `
dir=`+dir+`
for last; do :; done
case "$*" in
*" define "*)
	if [ -e $dir/pending.xml ]; then cat > $dir/definition.xml; exit; fi
	cat > $dir/pending.xml
	exec sleep 60 ;;
*dumpxml*)
	cat $dir/definition.xml
	echo "${last##*; echo }" ;;
esac`)
	v := throughVirsh{virsh{&Machine{live: true}, path}}
	a := setting.Of(setting.Domain, "vm 1", "interface/52:54:00:aa:00:01/driver.queues")
	from := v.Read(t.Context(), a)
	if from.Value != "2" {
		t.Fatalf("found %+v", from)
	}
	j, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	e := &apply.Engine{Mechanisms: setting.Mechanisms{setting.Domain: v}, Journal: j, Host: "box", BootID: "boot", Version: "test", Deadline: time.Second}
	p := &plan.Plan{Goal: goal.Unlimited(), Changes: []plan.Change{{
		ID: "domain.queues", Address: a, From: from, To: setting.Value("4"), Want: setting.Exact("4"), Risk: goal.GuestRestart, Lasts: setting.InDefinition,
	}}}
	result, err := e.Run(t.Context(), p, apply.Options{})
	if err == nil || result.State != journal.Doubtful {
		t.Fatalf("state %s, %v; expected in-doubt", result.State, err)
	}
	if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsInDoubt {
		t.Errorf("status %s, %v; expected in-doubt", s.State, err)
	}
	if err := os.Rename(pending, definition); err != nil { // the daemon gets it done
		t.Fatal(err)
	}
	if err := os.WriteFile(pending, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if found := v.Read(t.Context(), a); found.Value != "4" {
		t.Fatalf("found %+v; expected the write to have come about", found)
	}
	restored, err := e.Rollback(t.Context(), apply.RollbackOptions{})
	if err != nil || len(restored) != 1 || restored[0].Written() != 1 || restored[0].Drifted() != 0 {
		t.Fatalf("%+v, %v", restored, err)
	}
	if text, err := os.ReadFile(definition); err != nil || string(text) != definedXML {
		t.Errorf("after the rollback, %v:\n%s", err, text)
	}
	if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsClean {
		t.Errorf("status %s, %v; expected clean", s.State, err)
	}
}
