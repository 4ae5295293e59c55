package inside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/machine/kernel"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// Inventory is the inventory of package machine.
var Inventory func(context.Context, *tree.Tree) *facts.Host

// TestInsideIsReadAsAHost reads this machine through an agent and compares the result with a direct reading.
func TestInsideIsReadAsAHost(t *testing.T) {
	want := Inventory(t.Context(), treetest.Live(t))
	agent := &thisMachine{t: t}
	in := withStatus(t, statusFile("running", "", connected), agent)
	inside := in.lookInside(t.Context(), agent, &facts.Guest{Name: "vm1", VCPUs: len(want.Topology.CPUs),
		MaxVCPUs: len(want.Topology.CPUs)})
	if inside.Why != "" || inside.Host == nil {
		t.Fatalf("not seen: %q", inside.Why)
	}
	must.Hold(t, inside.Release == "6.12.48" && inside.OS == "Debian of vm1", "system: %+v", inside)
	got := inside.Host
	free := func(t facts.Topology) facts.Topology {
		t.Nodes = slices.Clone(t.Nodes)
		for i := range t.Nodes {
			// The total grows too, on a virtual machine that gets its memory bit by bit.
			t.Nodes[i].Memory, t.Nodes[i].Free, t.Nodes[i].Available = 0, 0, 0
		}
		t.DeniedCPUs, t.DeniedNodes, t.Suspect = nil, nil, nil // of this process
		return t
	}
	want.Kernel.RTGroups = "" // a guest is not asked for the configuration of its kernel
	for what, pair := range map[string][2]any{
		"kernel":   {want.Kernel, got.Kernel},
		"topology": {free(want.Topology), free(got.Topology)},
		"softnet":  {len(want.Softnet), len(got.Softnet)},
		"swap":     {len(want.Housekeeping.Swap), len(got.Housekeeping.Swap)},
		"name":     {want.Name, got.Name},
	} {
		must.NoDiff(t, cmp.Diff(pair[0], pair[1]), "%s", what)
	}
	var nics, seen []string
	for _, n := range want.NICs {
		nics = append(nics, fmt.Sprint(n.Name, n.MAC, n.Driver, n.Bus, n.PCI, n.Index, n.MTU, n.RxQueues, n.TxQueues,
			n.XPS, n.RPS, len(n.IRQs), n.Up))
	}
	for _, n := range got.NICs {
		seen = append(seen, fmt.Sprint(n.Name, n.MAC, n.Driver, n.Bus, n.PCI, n.Index, n.MTU, n.RxQueues, n.TxQueues,
			n.XPS, n.RPS, len(n.IRQs), n.Up))
	}
	must.NoDiff(t, cmp.Diff(nics, seen), "NICs")
}

// TestChannelsUnseen: the reason why a guest's channels are unknown is kept.
func TestChannelsUnseen(t *testing.T) {
	h := &facts.Host{NICs: []facts.NIC{{Name: "not-here", Driver: "virtio_net"}}}
	addChannels(t.Context(), &thisMachine{t: t, vanish: 1, because: libvirt.ErrAgentHangs}, &facts.Guest{Name: "vm1"},
		h)
	want := []facts.Unseen{facts.ChannelsUnseen("not-here", libvirt.ErrAgentHangs.Error())}
	if d := cmp.Diff(want, h.Unseen); d != "" || h.NICs[0].Channels != nil {
		t.Errorf("where the agent hangs: %+v: %s", h.NICs[0].Channels, d)
	}
	h.Unseen = nil // now its ethtool has an answer, of a device that is not there, or there is no ethtool
	addChannels(t.Context(), &thisMachine{t: t}, &facts.Guest{Name: "vm1"}, h)
	must.Hold(t, len(h.Unseen) == 1 && h.Unseen[0].Why != "" && h.NICs[0].Channels == nil,
		"where ethtool fails: %+v, %+v", h.NICs[0].Channels, h.Unseen)
}

// TestUnreachable: what libvirt's status file shows is reported without asking the agent.
func TestUnreachable(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   error
	}{
		"runs":            {statusFile("running", "", connected), nil},
		"an ordinary job": {statusFile("running", "<job type='modify' async='none'/>", connected), nil},
		"off":             {"", libvirt.ErrNotRunning},
		"paused":          {statusFile("paused", "", connected), libvirt.ErrPaused},
		"migrates": {statusFile("running", "<job type='none' async='migration out' phase='perform3' "+
			"flags='0x0'/>", connected), libvirt.ErrMigrates},
		"arrives": {statusFile("paused", "<job type='none' async='migration in' phase='prepare' "+
			"flags='0x900'/>", connected), libvirt.ErrMigrates},
		"no agent started": {statusFile("running", "", disconnected), libvirt.ErrNoAgent},
		"no channel":       {statusFile("running", "", ""), libvirt.ErrNoChannel},
	} {
		t.Run(name, func(t *testing.T) {
			agent := &thisMachine{t: t}
			in := withStatus(t, c.status, agent)
			must.Is(t, libvirt.Unreachable(in.tree, "vm1"), c.want, "libvirt.Unreachable")
			r := in.Read(t.Context(), setting.InGuest("vm1", setting.Of(setting.Sysctl, "kernel.osrelease")))
			switch {
			case c.want == nil && r.State != setting.Known:
				t.Errorf("read as %v (%s)", r, r.Why)
			case c.want == libvirt.ErrNotRunning && !(r.State == setting.Absent && r.NoObject):
				t.Errorf("of a guest that is off: %+v", r)
			case c.want != nil && c.want != libvirt.ErrNotRunning &&
				(r.State != setting.Unknown || !strings.Contains(r.Why, c.want.Error())):
				t.Errorf("read as %+v", r)
			case c.want != nil && agent.asked > 0:
				t.Error("it was asked all the same")
			}
		})
	}
	in := withStatus(t, statusFile("running", "<job type='none' async='migration out'/>", connected), nil)
	must.Equal(t, libvirt.Job(in.tree, "vm1"), "migration out", "job")
}

// TestInsideValues reads values of this machine through an agent, and compares each with the mechanism's own reading.
func TestInsideValues(t *testing.T) {
	direct := kernel.Mechanisms(treetest.Live(t))
	var all []setting.Address
	for _, text := range []string{
		"sysctl:kernel.osrelease", "sysctl:vm.stat_interval", "sysctl:kernel.nonesuch", "sysctl:kernel.//.secret",
		"sysfs:kernel/mm/transparent_hugepage/enabled",
		"sysfs-cpus:devices/virtual/workqueue/cpumask", "sysfs:class/net/lo/mtu", "sysfs:class/net/lo/nonesuch",
	} {
		a := must.Get(setting.ParseAddress("inside:vm1/" + text))(t)
		all = append(all, a)
	}
	agent := &thisMachine{t: t}
	readings := withStatus(t, statusFile("running", "", connected), agent).ReadAll(t.Context(), all)
	must.Hold(t, agent.asked <= 3, "%d values took %d rounds", len(all), agent.asked)
	for i, a := range all {
		inner := must.Get(a.Inner())(t)
		want := direct.Read(t.Context(), inner)
		if strings.Contains(inner.Path, "secret") {
			want = setting.CouldNotTell("leads out of /proc/sys")
		}
		if got := readings[i]; !got.Same(want) {
			t.Errorf("%s: %+v, directly %+v", a, got, want)
		}
	}
}

// TestInsideWrites writes a file through an agent, as a program in the guest does.
func TestInsideWrites(t *testing.T) {
	for text, want := range map[string]struct {
		value string
		argv  []string
		stdin string
	}{
		"sysctl:kernel.timer_migration": {"0", []string{"tee", "/proc/sys/kernel/timer_migration"}, "0\n"},
		"sysfs-cpus:class/net/eth0/queues/tx-1/xps_cpus": {"0,33",
			[]string{"tee", "/sys/class/net/eth0/queues/tx-1/xps_cpus"}, "2,00000001\n"},
		"nic-channels:eth0/combined": {"4", []string{"ethtool", "-L", "eth0", "combined", "4"}, ""},
		"service:irqbalance":         {"running", []string{"systemctl", "start", "--", "irqbalance.service"}, ""},
		"swap:dev/vda2":              {"off", []string{"swapoff", "/dev/vda2"}, ""},
		"swap:dev/vda3":              {"on 5", []string{"swapon", "-p", "5", "/dev/vda3"}, ""},
		"nic-channels:-L/combined":   {value: "4"},
		"service:a/b":                {value: "running"},
		"sysctl:kernel.//.x":         {value: "1"},
	} {
		inner := must.Get(setting.ParseAddress(text))(t)
		l := &valueLook{tree: newGuestTree(t.Context())}
		p, err := l.writer(setting.InGuest("vm1", inner), want.value)
		if want.argv == nil {
			must.Refuse(t, err, "%s: would be written by %q", text, p.Argv)
			continue
		}
		must.Hold(t, err == nil && slices.Equal(p.Argv, want.argv) && p.Stdin == want.stdin,
			"%s: %q with %q, %v; expected %q with %q", text, p.Argv, p.Stdin, err, want.argv, want.stdin)
	}
	file := filepath.Join(t.TempDir(), "value")
	results, err := libvirt.Execute(t.Context(), &thisMachine{t: t}, "vm1", libvirt.Call{Argv: []string{"tee", file},
		Stdin: "7\n"}, libvirt.Call{Argv: []string{"tee", "/nonesuch/x"}, Stdin: "7\n"},
		libvirt.Call{Argv: []string{"nonesuch-program"}})
	must.Do(t, err)
	if text, err := os.ReadFile(file); err != nil || string(text) != "7\n" || results[0].Problem() != nil {
		t.Errorf("wrote %q: %v, %v", text, err, results[0].Problem())
	}
	must.Say(t, results[1].Problem(), "No such file", "a refused write")
	if err := results[2].Problem(); err == nil || errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestGuestGoesAwayMidway: a program whose end was not seen is in doubt, unless the guest is gone.
func TestGuestGoesAwayMidway(t *testing.T) {
	status := statusFile("running", "", connected)
	a := setting.InGuest("vm1", setting.Of(setting.Sysctl, "kernel.nonesuch"))
	for because, doubt := range map[error]bool{libvirt.ErrAgentHangs: true, libvirt.ErrNotRunning: false} {
		in := withStatus(t, status, &thisMachine{t: t, vanish: 4, because: because})
		err := in.Write(t.Context(), a, setting.Value("1"))
		must.Hold(t, err != nil && errors.Is(err, setting.ErrInDoubt) == doubt &&
			strings.Contains(err.Error(), because.Error()), "%v: %v", because, err)
	}
	agent := &thisMachine{t: t, vanish: 1, because: libvirt.ErrAgentHangs}
	in := withStatus(t, status, agent)
	for range 3 {
		if r := in.Read(t.Context(), a); r.State != setting.Unknown || !strings.Contains(r.Why, "does not answer") {
			t.Errorf("of a guest that hangs: %+v", r)
		}
	}
	must.Equal(t, agent.asked, 1, "times an agent that hangs was asked")
}

// TestInsideWritesTogether: all values are written in a few rounds, and none if one is refused.
func TestInsideWritesTogether(t *testing.T) {
	status := statusFile("running", "", connected)
	var all []setting.Assignment
	for name, value := range map[string]string{"kernel.timer_migration": "0", "kernel.sched_rt_runtime_us": "-1",
		"vm.stat_interval": "10"} {
		all = append(all, setting.Assignment{Address: setting.InGuest("vm1", setting.Of(setting.Sysctl, name)),
			To: setting.Value(value)})
	}
	before := map[string]string{"/proc/sys/kernel/timer_migration": "1",
		"/proc/sys/kernel/sched_rt_runtime_us": "950000", "/proc/sys/vm/stat_interval": "1"}
	g := &fewFiles{files: maps.Clone(before)}
	must.Do(t, withStatus(t, status, g).WriteAll(t.Context(), all))
	if d := cmp.Diff(map[string]string{"/proc/sys/kernel/timer_migration": "0",
		"/proc/sys/kernel/sched_rt_runtime_us": "-1", "/proc/sys/vm/stat_interval": "10"}, g.files); d != "" ||
		g.rounds > 4 {
		t.Errorf("in %d rounds: %s", g.rounds, d)
	}
	g = &fewFiles{files: maps.Clone(before), refuses: "stat_interval"}
	err := withStatus(t, status, g).WriteAll(t.Context(), all)
	must.Hold(t, err != nil && strings.Contains(err.Error(), "vm.stat_interval") &&
		strings.Contains(err.Error(), "Invalid argument"), "refused: %v", err)
	must.NoDiff(t, cmp.Diff(before, g.files), "one was refused, and the others stand")
}

// TestInsideFiles reads files of this machine, then asks an agent that no longer replies.
func TestInsideFiles(t *testing.T) {
	agent := &thisMachine{t: t}
	in := withStatus(t, statusFile("running", "", connected), agent)
	found, err := in.Files(t.Context(), "vm1", "/proc/version", "/proc/uptime", "/proc/none")
	if version, _ := os.ReadFile("/proc/version"); err != nil || len(found) != 2 ||
		found["/proc/version"] != string(version) || found["/proc/uptime"] == "" {
		t.Errorf("found %q, %v", found, err)
	}
	if found, err := in.Files(t.Context(), "vm1", "/etc/hostname"); err == nil {
		t.Errorf("a file outside of /proc and /sys: %q", found)
	}
	agent.vanish, agent.because = 1, libvirt.ErrAgentHangs
	for range 2 { // the second time it is not asked
		must.Is(t, must.Err(in.Files(t.Context(), "vm1", "/proc/version")), libvirt.ErrAgentHangs, "in.Files")
	}
}

// TestSelected: counters are read inside the selected guest, or inside any.
func TestSelected(t *testing.T) {
	for _, c := range []struct {
		look string
		want bool
	}{{"", true}, {"vm1", true}, {"vm2", false}, {NoGuest, false}} {
		in := &Guests{}
		in.Select(c.look)
		must.Equal(t, in.Selected("vm1"), c.want, "Select(%q)", c.look)
	}
}

// Rebuild reads the files that a guest reports: links, files, folders, and more files.
func Rebuild(ctx context.Context, links, files, dirs, more string) (*facts.Host, error) {
	results := make([]libvirt.Result, 10)
	for i, out := range []string{links, files, dirs, more} {
		results[i].Out = out
	}
	return (&Guests{inventory: Inventory}).rebuild(ctx, "vm1", results)
}
