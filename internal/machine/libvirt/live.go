package libvirt

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/setting"
)

// livePins reads and writes the affinity of running guests' threads (setting.DomainLive). It writes through libvirt,
// which also changes the thread's cgroup and shows the pin in the guest's live definition. It reads the affinity from
// the kernel.
type livePins struct {
	machine *tree.Tree
	threads *threadPins
}

// roles are the thread roles of a definition's pin elements.
var roles = map[string]string{"vcpupin": "vcpu", "iothreadpin": "iothread", "emulatorpin": "emulator"}

// parsePin splits the address of a pin into the element of the definition and the index of its thread (empty for the
// emulator), and returns the thread's address.
func parsePin(a setting.Address) (element, number string, thread setting.Address, err error) {
	element, number, _ = strings.Cut(a.Rest(), "/")
	role, known := roles[element]
	if !known || (number == "") != (element == "emulatorpin") {
		return "", "", thread, a.Errorf("expected vcpupin/N, iothreadpin/N or emulatorpin of a guest")
	}
	elements := []string{a.Object(), role}
	if number != "" {
		elements = append(elements, number)
	}
	return element, number, setting.Of(setting.ThreadAffinity, elements...), nil
}

// Movable reports whether libvirt can change a value while its guest runs.
func Movable(a setting.Address) bool {
	_, _, _, err := parsePin(a)
	return err == nil
}

func (l livePins) Read(ctx context.Context, a setting.Address) setting.Reading {
	_, _, thread, err := parsePin(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return l.threads.Read(ctx, thread)
}

// Write pins the thread of the running guest through libvirt. The definition does not change.
func (l livePins) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	element, number, _, err := parsePin(a)
	if err != nil {
		return err
	}
	list, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	asked, err := Open(l.machine)
	if err != nil {
		return a.Errorf("%w", err)
	}
	v, live := asked.(Virsh)
	if !live {
		return a.Errorf("%w", tree.ErrNotLive)
	}
	args := []string{element, "--live", "--domain", a.Object(), "--cpulist", list}
	switch element {
	case "vcpupin":
		args = append(args, "--vcpu", number)
	case "iothreadpin":
		args = append(args, "--iothread", number)
	}
	if err := v.change(ctx, "", args...); err != nil {
		if tree.Mentions(err, "domain is not running", "failed to get domain") {
			err = errors.Join(ErrNotRunning, err)
		}
		return a.Errorf("%w", err)
	}
	return nil
}

// pendingPaths returns the paths whose values differ between a guest's definition and what it runs with: they take
// effect at its next start. A pin that is missing in the definition does not count if the live one has all online CPUs:
// that is the same as no pin, and libvirt shows it after a pin was removed while the guest ran.
func pendingPaths(running, defined *domain.Doc, online setting.CPUSet) []string {
	var paths []string
	_, limited, _ := defined.Get("vcpu.cpuset") // the CPUs of threads without a pin
	for _, d := range domain.Pending(running, defined) {
		element, _, _ := strings.Cut(d.Path, "/")
		if _, pin := roles[element]; pin && !limited && !d.HasTo && d.HasFrom {
			if set, err := setting.ParseCPUs(d.From); err == nil && len(online.Minus(set)) == 0 {
				continue
			}
		}
		paths = append(paths, d.Path)
	}
	return slices.Clip(paths)
}
