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

// Support is what the running kernel takes.
type Support struct {
	Why string // it does not take the programs; empty where it does
	TCX bool   // they are attached without a queue discipline
}

// Supported asks the kernel, by loading the programs, and attaching one to a device that is not there. Which release
// can do what does not tell: distributions take such things back to theirs. An error means that it could not be told,
// for want of privilege.
func Supported() (Support, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // before Linux 5.11 maps count as locked memory
		return Support{}, fmt.Errorf("lift the limit of locked memory: %w", err)
	}
	spec, err := loadLanes()
	if err != nil {
		return Support{}, err
	}
	spec.Maps[lanesMapWindows].MaxEntries = 1 // nobody reads it
	return supported(spec)
}

func supported(spec *ebpf.CollectionSpec) (Support, error) {
	var objects lanesObjects
	err := spec.LoadAndAssign(&objects, nil)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOMEM):
		return Support{}, loadError(err)
	case err != nil: // the verifier says EACCES to a field that may not be written
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
