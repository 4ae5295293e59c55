package traffic

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// testRunAttr is the part of union bpf_attr for BPF_PROG_TEST_RUN (include/uapi/linux/bpf.h).
type testRunAttr struct {
	progFD      uint32
	retval      uint32
	dataSizeIn  uint32
	dataSizeOut uint32
	dataIn      uint64
	dataOut     uint64
	repeat      uint32
	duration    uint32
	ctxSizeIn   uint32
	ctxSizeOut  uint32
	ctxIn       uint64
	ctxOut      uint64
	flags       uint32
	cpu         uint32
	batchSize   uint32
	_           uint32
}

const (
	bpfProgTestRun    = 10     // BPF_PROG_TEST_RUN of enum bpf_cmd
	testXDPLiveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES

	// longRun is the longest possible call: a call has a fixed cost of 16 ms or more in which nothing is sent, and a
	// signal ends it anyway.
	longRun = math.MaxUint32

	// endRun is the signal that ends a call: the last real-time signal, which neither the Go runtime nor anything else
	// here uses. The runtime's handler ignores it.
	endRun = unix.Signal(64)
)

// testRunLive issues bpf(2) once and returns its error unchanged. The library's own test run restarts an interrupted
// run from the beginning; here the program's counters record its progress, so EINTR must be visible.
func testRunLive(prog *ebpf.Program, frame []byte, repeat uint32, batch int) error {
	a := testRunAttr{
		progFD:     uint32(prog.FD()),
		dataSizeIn: uint32(len(frame)),
		dataIn:     uint64(uintptr(unsafe.Pointer(unsafe.SliceData(frame)))),
		repeat:     repeat,
		flags:      testXDPLiveFrames,
		batchSize:  uint32(batch),
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfProgTestRun, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
	runtime.KeepAlive(frame)
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	return nil
}

// onWorkerThread runs f on its own thread, in the namespace and on the CPU, with every signal except endRun
// blocked, so that no signal of the Go runtime interrupts a run. The thread ends with f, which gets its TID.
func onWorkerThread(netns string, cpu int, f func(tid int) error) <-chan error {
	done := make(chan error, 1)
	thread.Go(func() {
		done <- func() error {
			if err := enterNetns(netns); err != nil {
				return err
			}
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				return fmt.Errorf("bind a worker to CPU %d: %w", cpu, err)
			}
			var all unix.Sigset_t
			for i := range all.Val {
				all.Val[i] = ^uint64(0)
			}
			all.Val[(endRun-1)/64] &^= 1 << ((endRun - 1) % 64)
			if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
				return fmt.Errorf("block signals of a worker: %w", err)
			}
			return f(unix.Gettid())
		}()
	})
	return done
}

// firstCPU returns the first CPU that this process may run on.
func firstCPU() (int, error) {
	cpus, err := AllowedCPUs()
	if err != nil {
		return 0, err
	}
	return cpus[0], nil
}

// AllowedCPUs returns the CPUs that this process may run on, ascending and at least one.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	var cpus []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	if len(cpus) == 0 {
		return nil, errors.New("read the CPU affinity: no CPU is allowed")
	}
	return cpus, nil
}
