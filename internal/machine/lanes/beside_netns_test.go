//go:build netns

package lanes

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// tc runs a tc command; an underscore in a word is a blank.
func tc(t *testing.T, command string) error {
	t.Helper()
	words := strings.Fields(command)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "_", " ")
	}
	out, err := exec.Command("tc", words...).CombinedOutput()
	if err != nil {
		t.Logf("tc %q: %s", words, out)
	}
	return err
}

// sayOK is a filter that returns "ok" for each frame.
const sayOK = " bpf da bytecode 1,6_0_0_0"

// TestFilterInFront: mpps's filter at the NIC runs first, whatever pref the others have and whenever they are added. A
// filter that would run before it is an error, and if one is added later the NIC does not read as steered until it is
// written again.
func TestFilterInFront(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}}
	prog := program(t, true)
	do := func(command string) {
		t.Helper()
		must.Do(t, tc(t, command))
	}
	do("qdisc add dev nic0 clsact")
	for _, pref := range []string{"pref 1", "pref 5", ""} {
		do("filter add dev nic0 egress " + pref + sayOK)
		if err := prog.Write(windows); err != nil {
			t.Fatalf("beside a filter with %q: %v", pref, err)
		}
		p.run(had, 200).exact(t, "beside a filter with "+pref, 200, p.guests, windows)
		must.Do(t, prog.Remove())
		do("filter del dev nic0 egress")
	}
	do("filter add dev nic0 egress protocol ip pref 1 u32 match u32 0 0 flowid :1")
	err := prog.Write(windows)
	hinted, is := errors.AsType[interface {
		error
		Hint() string
	}](err)
	must.Hold(t, is && strings.Contains(err.Error(), "nic0 has a filter of somebody else's (u32) with pref 1") &&
		strings.Contains(hinted.Hint(), "nic0 egress"), "behind a filter of another kind: %v", err)
	do("filter del dev nic0 egress")
	nothingLeft(t)

	must.Do(t, prog.Write(windows))
	do("filter add dev nic0 egress pref 1" + sayOK)
	must.Equal(t, prog.reads(t), "idle", "with a filter in front it reads")
	must.Do(t, prog.Write(windows))
	must.Equal(t, prog.reads(t), setting.LanesText(windows), "written again it reads")
	p.run(had, 200).exact(t, "written again", 200, p.guests, windows)
	must.Do(t, prog.Remove())
	do("filter del dev nic0 egress")
	nothingLeft(t)
}

// TestOneTap: a tap that cannot be attached is reported, and the others have their lanes; a missing tap is no error;
// one with an ingress qdisc, which libvirt adds for a limit, can be attached.
func TestOneTap(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2, 2)
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 2}, {Tap: "tap1", Base: 2, Count: 2}}
	for _, one := range [][]setting.Lane{windows, {windows[1], windows[0]}} {
		prog := program(t, true)
		must.Do(t, errors.Join(tc(t, "qdisc add dev tap0 clsact"),
			tc(t, "filter add dev tap0 ingress protocol ip pref 1 u32 match u32 0 0 flowid :1")))
		err := prog.Write(one)
		if _, is := errors.AsType[*TapsError](err); !is ||
			!strings.Contains(err.Error(), "tap0: tap0 has a filter of somebody else's (u32)") {
			t.Errorf("with a tap that cannot be attached: %v", err)
		}
		must.Equal(t, prog.reads(t), "tap1=2+2", "with a tap that cannot be attached it reads")
		must.Do(t, tc(t, "filter del dev tap0 ingress"))
		must.Succeed(t, prog.Write(one), "without that filter")
		must.Do(t, prog.Remove())
		must.Do(t, tc(t, "qdisc del dev tap0 clsact"))
		nothingLeft(t)
	}
	ways(t, func(t *testing.T, filters bool) {
		prog := program(t, filters)
		there := prog.Find
		gone := true
		prog.Find = func(tap string) (Device, bool) {
			if tap == "tap9" {
				return Device{Name: tap, Index: 4711}, gone
			}
			return there(tap)
		}
		must.Succeed(t, prog.Write(append(windows, setting.Lane{Tap: "tap9", Base: 4, Count: 1})),
			"with a tap that went a moment ago")
		gone = false
		must.Equal(t, prog.reads(t), "tap0=0+2 tap1=2+2 tap9=4+1", "with a tap that went a moment ago it reads")
		must.Do(t, prog.Remove())
		nothingLeft(t)
	})
	prog := program(t, true)
	must.Do(t, errors.Join(tc(t, "qdisc del dev tap1 clsact"), tc(t, "qdisc add dev tap1 handle ffff: ingress")))
	must.Succeed(t, prog.Write(windows), "with the queue discipline ingress at a tap")
	must.Equal(t, prog.reads(t), setting.LanesText(windows), "with the queue discipline ingress at a tap it reads")
	must.Do(t, prog.Remove())
	nothingLeft(t)
}

// TestFiltersOfAnotherVersion: filters of another version count as attached, and are removed with those of this version
// or replaced by them.
func TestFiltersOfAnotherVersion(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2)
	prog := program(t, true)
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 2}}
	old := func() {
		t.Helper()
		_, programs, err := prog.load()
		must.Do(t, err)
		defer programs.Close()
		for _, at := range []struct {
			d Device
			s side
			f int
		}{{prog.NIC, nicSide, programs.MppsLaneNic.FD()}, {find(t, prog, "tap0"), tapSide, programs.MppsLaneTap.FD()}} {
			_ = tc(t, "qdisc add dev "+at.d.Name+" clsact") // may be there
			must.Do(t, netlink.FilterAdd(&netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: at.d.Index, Parent: at.s.parent(),
					Protocol: unix.ETH_P_ALL},
				Fd: at.f, Name: "mpps-lanes-v9:nic0", DirectAction: true,
			}))
		}
		must.Do(t, prog.removeDir(prog.dir()))
	}
	count := func(d Device, s side) int {
		t.Helper()
		all := must.Get(filtersAt(d, s))(t)
		return len(all)
	}
	old()
	if there, err := prog.Exists(); !there || err != nil {
		t.Errorf("there: %v, %v", there, err)
	}
	must.Do(t, prog.Write(windows))
	if n, taps := count(prog.NIC, nicSide), count(find(t, prog, "tap0"), tapSide); n != 1 || taps != 1 {
		t.Errorf("written over another version's: %d filters at the NIC and %d at the tap, expected 1 each", n, taps)
	}
	must.Equal(t, prog.reads(t), setting.LanesText(windows), "reads")
	must.Do(t, prog.Remove())
	old()
	must.Do(t, prog.Remove())
	if there, err := prog.Exists(); there || err != nil {
		t.Errorf("there after it was removed: %v, %v", there, err)
	}
	nothingLeft(t)
}
