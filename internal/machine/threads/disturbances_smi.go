package threads

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
)

// msrSMICount is MSR_SMI_COUNT (arch/x86/include/asm/msr-index.h) of Intel's CPUs since Nehalem: SMIs since the last
// reset, in the lower 32 bits. An SMI stops all CPUs of the machine, so any CPU's counter will do.
const msrSMICount = 0x34

// openSMI opens the SMI counter of the first CPU that we may run on.
func (d *Disturbances) openSMI() {
	if !d.m.Live() {
		return
	}
	if info, _ := d.m.Head("proc/cpuinfo", 4<<10); !strings.Contains(info, "GenuineIntel") {
		d.addUnseen("SMIs: only Intel's CPUs count them")
		return
	}
	cpu := 0
	if set, err := getAffinity(0); err == nil && len(set) > 0 {
		cpu = set[0]
	}
	name := fmt.Sprintf("/dev/cpu/%d/msr", cpu)
	f, err := os.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		d.addUnseen(fmt.Sprintf("SMIs: %s cannot be read (%v); 'modprobe msr' and root make it so", name,
			withoutPath(err)))
		return
	}
	var value [8]byte
	if _, err := unix.Pread(int(f.Fd()), value[:], msrSMICount); err != nil {
		_ = f.Close() // it was only read
		d.addUnseen(fmt.Sprintf("SMIs: this CPU, or the hypervisor below, has no counter of them (MSR 0x34: %v)", err))
		return
	}
	d.msr = f
}

func (d *Disturbances) readSMI(t facts.Tally) {
	if d.msr == nil {
		return
	}
	var value [8]byte
	if n, err := unix.Pread(int(d.msr.Fd()), value[:], msrSMICount); err == nil && n == 8 {
		t[facts.Counter{Kind: facts.SMI, CPU: -1}] = uint64(binary.NativeEndian.Uint32(value[:4]))
	}
}

// withoutPath returns the errno of a file error, without the path.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
