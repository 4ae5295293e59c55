package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/domain"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// throughVirsh writes and reads values of one guest with a virsh program.
type throughVirsh struct{ Virsh }

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

// TestDefineThatIsLeftBehind: virsh is killed while the daemon still works on its request. The journal then has the
// change as in doubt, not as undone; a rollback reads the result and undoes it.
func TestDefineThatIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	definition, pending := filepath.Join(dir, "definition.xml"), filepath.Join(dir, "pending.xml")
	must.Do(t, os.WriteFile(definition, []byte(definedXML), 0o644))
	// The first definition is accepted without a reply; later ones are replied to at once. The text of "one" is the
	// argument with dumpxml and the mark to echo after it.
	path := treetest.Program(t, `
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
	v := throughVirsh{Virsh{treetest.Live(t), []string{path}}}
	a := setting.Of(setting.Domain, "vm 1", "interface/52:54:00:aa:00:01/driver.queues")
	from := v.Read(t.Context(), a)
	must.Need(t, from.Value == "2", "found %+v", from)
	j := must.Get(journal.Open(t.TempDir()))(t)
	defer j.Close()
	e := &apply.Engine{Mechanisms: setting.Mechanisms{setting.Domain: v}, Journal: j, Host: "box", BootID: "boot",
		Version: "test", Deadline: time.Second}
	p := &plan.Plan{Goal: goal.Unlimited(), Changes: []plan.Change{{
		ID: "domain.queues", Address: a, From: from, To: setting.Value("4"), Want: setting.Exact("4"),
		Risk: goal.GuestRestart, Lasts: setting.InDefinition,
	}}}
	result, err := e.Run(t.Context(), p, apply.Options{})
	must.Need(t, err != nil && result.State == journal.Doubtful, "state %s, %v; expected in-doubt", result.State, err)
	if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsInDoubt {
		t.Errorf("status %s, %v; expected in-doubt", s.State, err)
	}
	if err := os.Rename(pending, definition); err != nil { // the daemon gets it done
		t.Fatal(err)
	}
	must.Do(t, os.WriteFile(pending, nil, 0o644))
	if found := v.Read(t.Context(), a); found.Value != "4" {
		t.Fatalf("found %+v; expected the write to have come about", found)
	}
	restored, err := e.Rollback(t.Context(), apply.RollbackOptions{})
	must.Need(t, err == nil && len(restored) == 1 && restored[0].Written() == 1 && restored[0].Drifted() == 0,
		"%+v, %v", restored, err)
	if text, err := os.ReadFile(definition); err != nil || string(text) != definedXML {
		t.Errorf("after the rollback, %v:\n%s", err, text)
	}
	if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsClean {
		t.Errorf("status %s, %v; expected clean", s.State, err)
	}
}
