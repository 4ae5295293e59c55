//go:build netns

package machine

import (
	"context"
	"os"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestKernelSwitches writes values of the running kernel, checks the kernel's files, and restores them.
func TestKernelSwitches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m := live(t)
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
		{"trace-events:set_event", "sched:sched_process_exec", "/sys/kernel/tracing/set_event",
			"sched:sched_process_exec"},
	} {
		t.Run(c.address+"="+c.value, func(t *testing.T) {
			a := must.Get(setting.ParseAddress(c.address))(t)
			if f, err := os.OpenFile(c.file, os.O_WRONLY, 0); err != nil {
				t.Skipf("this kernel does not have it, or not to be changed: %v", err)
			} else if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			was := shown(c.file)
			before := mechanisms.Read(ctx, a)
			must.Need(t, before.State == setting.Known && !before.ReadOnly,
				"the kernel shows %q, and it reads as %+v", was, before)
			t.Cleanup(func() {
				must.Succeed(t, mechanisms.Write(ctx, a, before), "putting it back")
				must.Equal(t, shown(c.file), was, "put back")
			})
			must.Do(t, mechanisms.Write(ctx, a, setting.Value(c.value)))
			must.Equal(t, shown(c.file), c.want, "the kernel shows")
			must.Equal(t, mechanisms.Read(ctx, a).String(), c.value, "read back")
		})
	}
}
