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

// livePins reads and writes the CPUs of running guests' threads through libvirt (setting.DomainLive), which then knows
// of it: it moves the thread's cgroup too, and shows the pin in the guest's live definition. What is read are the CPUs
// that the kernel gives the thread, which nobody's opinion of it can change.
type livePins struct {
	machine *tree.Tree
	threads *threadPins
}

// roles are the threads that pins of a definition are about.
var roles = map[string]string{"vcpupin": "vcpu", "iothreadpin": "iothread", "emulatorpin": "emulator"}

// pinned takes the address of a pin apart: the element of the definition, the number of its thread (empty of the
// emulator), and the address of the thread.
func pinned(a setting.Address) (element, number string, thread setting.Address, err error) {
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
	_, _, _, err := pinned(a)
	return err == nil
}

func (l livePins) Read(ctx context.Context, a setting.Address) setting.Reading {
	_, _, thread, err := pinned(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return l.threads.Read(ctx, thread)
}

// Write has libvirt pin the thread, of the running guest and not of its definition.
func (l livePins) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	element, number, _, err := pinned(a)
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
	args := []string{"-q", "-c", "qemu:///system", element, "--live", "--domain", a.Object(), "--cpulist", list}
	switch element {
	case "vcpupin":
		args = append(args, "--vcpu", number)
	case "iothreadpin":
		args = append(args, "--iothread", number)
	}
	if err := l.machine.Change(ctx, "", v.path, args...); err != nil {
		if tree.Mentions(err, "domain is not running", "failed to get domain") {
			err = errors.Join(ErrNotRunning, err)
		}
		return a.Errorf("%w", err)
	}
	return nil
}

// waits are the paths in which a guest's definition is another than what it runs with, and that wait for its next
// start: pins count where the definition wants other CPUs than the thread has. Without a pin a thread has all CPUs that
// are online, and so it has where libvirt still shows that as a pin, because it was taken back while the guest ran.
func waits(running, defined *domain.Doc, online setting.CPUSet) []string {
	var paths []string
	_, held, _ := defined.Get("vcpu.cpuset") // the CPUs of threads without a pin
	for _, d := range domain.Pending(running, defined) {
		element, _, _ := strings.Cut(d.Path, "/")
		if _, pin := roles[element]; pin && !held && !d.HasTo && d.HasFrom {
			if set, err := setting.ParseCPUs(d.From); err == nil && len(online.Minus(set)) == 0 {
				continue
			}
		}
		paths = append(paths, d.Path)
	}
	return slices.Clip(paths)
}
