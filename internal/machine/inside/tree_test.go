package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestInsideTreeDoesNotTrust: files that a malicious guest reports do not lead out of the tree.
func TestInsideTreeDoesNotTrust(t *testing.T) {
	deep := "/proc" + strings.Repeat("/d", 30_000)
	for name, lie := range map[string]func(*guestTree) error{
		"a file elsewhere": func(t *guestTree) error { return t.addFiles("/etc/passwd:root\n") },
		"dots":             func(t *guestTree) error { return t.addFiles("/proc/../../etc/passwd:root\n") },
		"dots that stay":   func(t *guestTree) error { return t.addFiles("/proc/../etc/passwd:root\n") },
		"a link out": func(t *guestTree) error {
			return errors.Join(t.addLinks("l /sys/class/net/eth0 -> ../../../../../../etc\n"),
				t.addFiles("/sys/class/net/eth0/passwd:x\n"))
		},
		"a link to elsewhere": func(t *guestTree) error { return t.addLinks("l /sys/class/net/eth0 -> ../../../etc\n") },
		"a link at the top":   func(t *guestTree) error { return t.addLinks("l /sys/../proc -> sys\n") },
		"a directory":         func(t *guestTree) error { return t.addDirs("/root/.ssh\n") },
		"too much":            func(t *guestTree) error { return t.addFiles("/proc/x:" + strings.Repeat("x", 17<<20) + "\n") },
		"a file in a file":    func(t *guestTree) error { return t.addFiles("/proc/a:\n/proc/a/b:\n") },
		"a deep file":         func(t *guestTree) error { return t.addFiles(deep + ":\n") },
		"a deep directory":    func(t *guestTree) error { return t.addDirs(deep + "\n") },
		"a deep link":         func(t *guestTree) error { return t.addLinks("l /sys" + deep + " -> x\n") },
		"a long name":         func(t *guestTree) error { return t.addDirs("/proc/" + strings.Repeat("n", 300) + "\n") },
	} {
		if err := lie(newGuestTree(t.Context())); err == nil {
			t.Errorf("%s was accepted", name)
		} else if len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	twice := newGuestTree(t.Context())
	if err := errors.Join(twice.addFiles("/proc/a:1\n/proc/a:2\n"), twice.addFiles("/proc/a:3\n")); err != nil ||
		twice.Tree("").Line("proc/a") != "3" {
		t.Errorf("told twice: %v", err)
	}
}

// hostile are the outputs of the five programs in a guest that wants to keep mpps busy.
func hostile() map[string][5]string {
	const net = "/sys/class/net/"
	all := map[string][5]string{
		"two links in a circle": {"l " + net + "a -> b\nl " + net + "b -> a\n"},
		"a link to itself":      {"l " + net + "a -> a/a/a/a\n", net + "a/mtu:1\n"},
		"a link to its parent":  {"l " + net + "a -> ../net\nl " + net + "a/device -> ..\n"},
	}
	// Each link names the one before it several times: followed one by one these are 8 to the 39th steps.
	for name, width := range map[string]int{"few links that fan out": 2, "links that fan out": 8} {
		links := "l " + net + "a0 -> .\n"
		for i := 1; i < 40; i++ {
			before := fmt.Sprintf("a%d", i-1)
			links += fmt.Sprintf("l %sa%d -> %s\n", net, i, strings.Repeat(before+"/../", width-1)+before)
		}
		all[name] = [5]string{links, net + "a39/mtu:1500\n"}
	}
	for name, n := range map[string]int{"very many": 90_000, "many": 45_000, "as many as are read": maxNICs} {
		var nics, entries, comms, grouped strings.Builder
		for i := range n {
			fmt.Fprintf(&nics, "l %sn%d -> ../../devices/d/n%d\n", net, i, i)
			fmt.Fprintf(&entries, "/proc/irq/%d/x\n", i)
			fmt.Fprintf(&comms, "/proc/%d/comm:ksoftirqd/%d\n", i, i)
			fmt.Fprintf(&grouped, "/proc/irq/9/%d\n", i)
		}
		all[name+" NICs"] = [5]string{nics.String()}
		all[name+" interrupts"] = [5]string{2: entries.String()}
		all[name+" handlers"] = [5]string{2: grouped.String()}
		all[name+" processes"] = [5]string{4: comms.String()}
	}
	cpus := strings.Repeat("0-8191,", 20_000) + "0"
	all["many CPUs"] = [5]string{3: "/sys/devices/system/cpu/online:" + cpus + "\n/sys/devices/system/cpu/isolated:" +
		cpus + "\n/proc/cmdline:isolcpus=" + cpus + " nohz_full=" + cpus + "\n"}
	all["nodes in a circle"] = [5]string{3: "/sys/devices/system/node/online:" + cpus +
		"\n/sys/devices/system/node/node0/distance:" + strings.Repeat("9 ", 1<<20) + "\n"}
	return all
}

// TestHostileGuest: whatever a guest reports, its view is there or refused within seconds, a cancelled command does not
// wait for it, and nothing is left on disk.
func TestHostileGuest(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, outs := range hostile() {
		t.Run(name, func(t *testing.T) {
			results := make([]libvirt.Result, 10)
			for i, out := range outs {
				results[i].Out = out
			}
			in := &Guests{inventory: Inventory}
			begin := time.Now()
			_, err := in.readFiles(t.Context(), "vm1", results)
			t.Logf("%v: %v", time.Since(begin), err)
			if took := time.Since(begin); took > readPatience+20*time.Second || errors.Is(err, errSlow) {
				t.Errorf("it took %v: %v", took, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			must.Is(t, must.Err(in.readFiles(ctx, "vm1", results)), context.Canceled, "a cancelled command")
			if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestGuestCrashesAlone: a fault in the reader costs the view of one guest.
func TestGuestCrashesAlone(t *testing.T) {
	in := &Guests{inventory: func(context.Context, *tree.Tree) *facts.Host { panic("divide by zero") }}
	if h, err := in.readFiles(t.Context(), "vm1", make([]libvirt.Result, 10)); h != nil || err == nil ||
		!strings.Contains(err.Error(), "divide by zero") {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestGuestHangsAlone: a reader that ignores its context does not keep a cancelled command.
func TestGuestHangsAlone(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	in := &Guests{inventory: func(context.Context, *tree.Tree) *facts.Host { <-free; return nil }}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	must.Is(t, must.Err(in.readFiles(ctx, "vm1", make([]libvirt.Result, 5))), context.DeadlineExceeded, "in.readFiles")
}

func FuzzInsideTree(f *testing.F) {
	f.Add("lrwxrwxrwx 1 0 0 0 Nov 21 03:56 /sys/class/net/eth0 -> ../../devices/pci0000:00/virtio0/net/eth0\n",
		"/sys/class/net/eth0/mtu:1500\n", "/proc/irq/9/acpi\n", "/sys/devices/system/cpu/online:0-1\n")
	f.Fuzz(func(t *testing.T, links, files, dirs, more string) {
		results := make([]libvirt.Result, 10)
		for i, out := range []string{links, files, dirs, more} {
			results[i].Out = out
		}
		_, err := (&Guests{inventory: Inventory}).rebuild(t.Context(), "vm1", results)
		if errors.Is(err, context.Canceled) {
			t.Skip()
		}
	})
}

func TestParseChannels(t *testing.T) {
	const text = "Channel parameters for eth0:\nPre-set " +
		"maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t4\nCurrent hardware " +
		"settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t1\n"
	must.NoDiff(t, cmp.Diff(&facts.Channels{MaxCombined: 4, Combined: 1}, parseChannels(text)), "difference")
	if c := parseChannels("netlink error: Operation not supported\n"); c != nil {
		t.Errorf("made of an error: %+v", c)
	}
}
