package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
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
	changed := time.AfterFunc(2500*time.Millisecond, func() {
		put("boot/grub/grub.cfg", menu("quiet isolcpus=3"))
		put("proc/irq/45/smp_affinity_list", "2\n")
		put("proc/irq/45/effective_affinity_list", "2\n")
		put("proc/77/comm", "tuned\n")
	})
	defer changed.Stop()
	defer time.AfterFunc(7*time.Second, calm).Stop()
	var out, errs bytes.Buffer
	code := run([]string{"verify", "--watch", "--every", "1s", "--for", "12s", "--cpus", "2-3", "--json", "--root", root}, strings.NewReader(""), &out, &errs)
	if code != exitDrifted {
		t.Errorf("exit code %d: %s", code, errs.String())
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
