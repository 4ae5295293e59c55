//go:build netns

package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/setting"
)

// TestRuleSets empties and restores rule sets, and looks at them through the tools themselves.
func TestRuleSets(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	mechanism := liveMachine(t).Mechanisms()[setting.RuleSet]
	ctx := context.Background()
	for _, c := range []struct {
		tool, show string
		setup      [][]string
	}{
		{"nft", "nft -s list ruleset", [][]string{
			{"nft", "add table inet mine"}, {"nft", "add chain inet mine input { type filter hook input priority 0 ; policy accept ; }"},
			{"nft", "add set inet mine ports { type inet_service ; elements = { 22, 80 } ; }"},
			{"nft", "add rule inet mine input tcp dport @ports counter accept comment \"two  words\""},
		}},
		{"iptables-legacy", "iptables-legacy -S", [][]string{
			{"iptables-legacy", "-N", "mine"}, {"iptables-legacy", "-A", "mine", "-p", "tcp", "--dport", "22", "-j", "ACCEPT"},
			{"iptables-legacy", "-A", "FORWARD", "-j", "mine"}, {"iptables-legacy", "-P", "FORWARD", "DROP"},
		}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skipf("%s is not installed", c.tool)
			}
			for _, command := range c.setup {
				if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
					t.Skipf("%v: %v: %s", command, err, out)
				}
			}
			show := strings.Fields(c.show)
			shown := func() string { return treetest.Tool(t, show[0], show[1:]...) }
			a := setting.Of(setting.RuleSet, c.tool)
			was, before := shown(), mechanism.Read(ctx, a)
			if before.State != setting.Known {
				t.Fatalf("%+v", before)
			}
			if again := mechanism.Read(ctx, a); !again.Same(before) {
				t.Errorf("read twice:\n%s\n%s", before.Value, again.Value)
			}
			if err := mechanism.Write(ctx, a, setting.Missing("removed")); err != nil {
				t.Fatal(err)
			}
			if r := mechanism.Read(ctx, a); r.State != setting.Absent {
				t.Errorf("emptied: %+v", r)
			}
			if text := shown(); strings.Contains(text, "22") || strings.Contains(text, "DROP") {
				t.Errorf("still there: %s", text)
			}
			if err := mechanism.Write(ctx, a, before); err != nil {
				t.Fatal(err)
			}
			if now := shown(); now != was {
				t.Errorf("restored:\n%s\nwas:\n%s", now, was)
			}
		})
	}
}

// TestThreadPolicy sets the policy of a process and looks at it with chrt(1).
func TestThreadPolicy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	pid := strconv.Itoa(child.Process.Pid)
	if out, err := exec.Command("chrt", "-f", "-p", "2", pid).CombinedOutput(); err != nil {
		t.Skipf("this kernel gives a process of this control group no realtime policy: chrt: %s", out)
	}
	for value, want := range map[string]string{"SCHED_FIFO 2": "SCHED_FIFO 2", "SCHED_BATCH": "SCHED_BATCH 0", "SCHED_OTHER": "SCHED_OTHER 0"} {
		if err := setPolicy(child.Process.Pid, value); err != nil {
			t.Errorf("%s: %v", value, err)
		}
		shown := strings.Join(strings.Fields(treetest.Tool(t, "chrt", "-p", pid)), " ")
		policy, priority, _ := strings.Cut(want, " ")
		if !strings.Contains(shown, "policy: "+policy) || !strings.Contains(shown, "priority: "+priority) {
			t.Errorf("%s: chrt says %q", value, shown)
		}
	}
	if err := setPolicy(child.Process.Pid, "SCHED_DEADLINE"); err == nil {
		t.Error("SCHED_DEADLINE was accepted")
	}
}

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
