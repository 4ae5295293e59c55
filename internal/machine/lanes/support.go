package lanes

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Support is what the running kernel supports.
type Support struct {
	Why string // the kernel rejects the programs; empty if it accepts them
	TCX bool   // they are attached without a qdisc
}

// Supported probes the kernel: it loads the programs and tries to attach one to a device that does not exist. The
// release number does not tell, since distributions backport. An error means that the privilege to probe is missing.
func Supported() (Support, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // before Linux 5.11 maps count as locked memory
		return Support{}, fmt.Errorf("lift the limit of locked memory: %w", err)
	}
	spec, err := loadLanes()
	if err != nil {
		return Support{}, err
	}
	spec.Maps[lanesMapWindows].MaxEntries = 1 // it is not used
	return supported(spec)
}

func supported(spec *ebpf.CollectionSpec) (Support, error) {
	var objects lanesObjects
	err := spec.LoadAndAssign(&objects, nil)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOMEM):
		return Support{}, loadError(err)
	case err != nil: // the verifier returns EACCES for a field that may not be written
		why, _, _ := strings.Cut(err.Error(), "\n")
		return Support{Why: why}, nil
	}
	defer objects.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: objects.MppsLaneNic,
		Attach: ebpf.AttachTCXEgress})
	if err == nil {
		return Support{TCX: true}, l.Close()
	}
	return Support{TCX: errors.Is(err, unix.ENODEV)}, nil
}
