//go:build netns

package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/setting"
)

// TestSwapFile switches a swap file on with a priority and off again.
func TestSwapFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	file := filepath.Join(t.TempDir(), "swap")
	if err := os.WriteFile(file, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	treetest.Tool(t, "mkswap", file)
	if out, err := exec.Command("swapon", file).CombinedOutput(); err != nil {
		t.Skipf("this file system or this kernel has no swap files: %s", out)
	}
	treetest.Tool(t, "swapoff", file)
	mechanism := swap{liveMachine(t)}
	a := setting.Of(setting.Swap, strings.TrimPrefix(file, "/"))
	ctx := context.Background()
	if r := mechanism.Read(ctx, a); r.Value != "off" {
		t.Fatalf("a swap file that is not in use: %+v", r)
	}
	if err := mechanism.Write(ctx, a, setting.Value("on 5")); err != nil {
		t.Fatal(err)
	}
	defer mechanism.Write(ctx, a, setting.Value("off"))
	if r := mechanism.Read(ctx, a); r.Value != "on 5" || !strings.Contains(treetest.Tool(t, "swapon", "--show=NAME,PRIO", "--noheadings"), "5") {
		t.Errorf("after swapon: %+v", r)
	}
	if err := mechanism.Write(ctx, a, setting.Value("off")); err != nil {
		t.Fatal(err)
	}
	if r := mechanism.Read(ctx, a); r.Value != "off" {
		t.Errorf("after swapoff: %+v", r)
	}
}

// TestKernelSwitches writes values of the running kernel, looks at the kernel's own files, and puts them back.
func TestKernelSwitches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m := liveMachine(t)
	mechanisms, ctx := m.Mechanisms(), context.Background()
	shown := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Skip(err)
		}
		return strings.TrimSpace(string(text))
	}
	for _, c := range []struct{ address, value, file, want string }{
		{"ksm:run", "2", "/sys/kernel/mm/ksm/run", "2"},
		{"ksm:run", "0", "/sys/kernel/mm/ksm/run", "0"},
		{"module-param:kvm/halt_poll_ns", "123456", "/sys/module/kvm/parameters/halt_poll_ns", "123456"},
		{"trace-events:set_event", "sched:sched_process_exec", "/sys/kernel/tracing/set_event", "sched:sched_process_exec"},
	} {
		t.Run(c.address+"="+c.value, func(t *testing.T) {
			a, err := setting.ParseAddress(c.address)
			if err != nil {
				t.Fatal(err)
			}
			if f, err := os.OpenFile(c.file, os.O_WRONLY, 0); err != nil {
				t.Skipf("this kernel does not have it, or not to be changed: %v", err)
			} else if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			was := shown(c.file)
			before := mechanisms.Read(ctx, a)
			if before.State != setting.Known || before.ReadOnly {
				t.Fatalf("the kernel shows %q, and it reads as %+v", was, before)
			}
			t.Cleanup(func() {
				if err := mechanisms.Write(ctx, a, before); err != nil {
					t.Errorf("putting it back: %v", err)
				}
				if now := shown(c.file); now != was {
					t.Errorf("put back: %q, was %q", now, was)
				}
			})
			if err := mechanisms.Write(ctx, a, setting.Value(c.value)); err != nil {
				t.Fatal(err)
			}
			if now := shown(c.file); now != c.want {
				t.Errorf("the kernel shows %q, expected %q", now, c.want)
			}
			if r := mechanisms.Read(ctx, a); r.Value != c.value {
				t.Errorf("read back %s", r)
			}
		})
	}
}
