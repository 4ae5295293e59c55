package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/report"
	"mpps/internal/setting"
	verdicts "mpps/internal/watch"
)

// TestWatchTells: what changes below a root while it is watched is told as it comes and as it goes: an interrupt, the next boot's
// arguments, a daemon.
func TestWatchTells(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := unpackTree("two-nodes", root); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name+".new", []byte(text), 0o644), os.Rename(name+".new", name)); err != nil {
			t.Error(err)
		}
	}
	menu := func(args string) string {
		return "set default=\"0\"\nmenuentry 'Debian' --class gnu $menuentry_id_option 'a' {\n\tlinux\t/boot/vmlinuz-6.12.0 root=/dev/vda1 ro " + args + "\n}\n"
	}
	calm := func() {
		put("boot/grub/grub.cfg", menu("quiet"))
		put("proc/irq/45/smp_affinity_list", "0\n")
		put("proc/irq/45/effective_affinity_list", "0\n")
		put("proc/77/comm", "other\n")
	}
	calm()
	// Looks are counted, not seconds: other tests take CPU time of this process too.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	state := filepath.Join(t.TempDir(), "mpps.prom")
	looks := func() (n int) {
		text, err := os.ReadFile(state)
		if _, after, is := strings.Cut(string(text), "\nmpps_watch_looks_total "); err == nil && is {
			_, err = fmt.Sscan(after, &n)
			if err != nil {
				t.Error(err)
			}
		}
		return n
	}
	until := func(n int) {
		for looks() < n && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, root: root}
	a.out = report.NewPrinter(&out, &errs, report.Options{JSON: true})
	done := make(chan error, 1)
	go func() {
		done <- a.watchVerify(ctx, &watchFlags{every: time.Second, metrics: state, cpus: setting.CPUs(2, 3)})
	}()
	until(2)
	put("boot/grub/grub.cfg", menu("quiet isolcpus=3"))
	put("proc/irq/45/smp_affinity_list", "2\n")
	put("proc/irq/45/effective_affinity_list", "2\n")
	put("proc/77/comm", "tuned\n")
	until(5)
	calm()
	until(8)
	if ctx.Err() != nil {
		t.Errorf("%d looks in two minutes", looks())
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	var told []string
	for line := range strings.Lines(out.String()) {
		var e verdicts.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !e.Found {
			told = append(told, e.Event+" "+e.Code+" "+e.Object)
		}
	}
	for _, want := range []string{
		"changed boot.arguments next boot", "begins lists.next_boot isolcpus", "changed service.started tuned", "begins irq.aimed irq 45",
		"ends lists.next_boot isolcpus", "changed service.stopped tuned", "ends irq.aimed irq 45",
	} {
		n := 0
		for _, got := range told {
			if strings.HasPrefix(got, want) {
				n++
			}
		}
		if expected := 1 + strings.Count(want, "boot.arguments"); n != expected {
			t.Errorf("%q was told %d times, expected %d, in\n%s", want, n, expected, strings.Join(told, "\n"))
		}
	}
}
