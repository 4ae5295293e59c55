package traffic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// BareLoop sends the same frame at the full speed of the kernel's live frames, from one CPU, until ctx is done. Its
// program only redirects and writes nothing, so the difference is the cost of the generator's own work. Nothing is
// counted. The MAC addresses default to zero.
func BareLoop(ctx context.Context, out Endpoint, cpu int, f Frame) (err error) {
	dev, err := out.Device()
	if err != nil {
		return err
	}
	f = f.withDefaults()
	for _, mac := range []*[]byte{(*[]byte)(&f.SrcMAC), (*[]byte)(&f.DstMAC)} {
		if len(*mac) == 0 {
			*mac = make([]byte, 6)
		}
	}
	devmap, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	defer devmap.Close()
	// The kernel looks the index up in the namespace of the writing thread (dev_map_update_elem in
	// kernel/bpf/devmap.c).
	if err := dev.Do(func() error { return devmap.Put(uint32(0), uint32(dev.Index)) }); err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R1, devmap.FD()),
			asm.Mov.Imm(asm.R2, 0),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRedirectMap.Call(),
			asm.Return(),
		}})
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	defer prog.Close()
	var tid atomic.Int64
	done := onWorkerThread(out.Netns, cpu, func(t int) error {
		tid.Store(int64(t))
		defer tid.Store(0)
		for ctx.Err() == nil {
			err := testRunLive(prog, f.template(0), longRun, maxBatch)
			if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
				return fmt.Errorf("bare loop: %w", err)
			}
		}
		return nil
	})
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		}
		// Repeat the signal: a call may begin between the check of ctx and the signal.
		if t := tid.Load(); t != 0 {
			_ = unix.Tgkill(os.Getpid(), int(t), endRun) // already gone is fine
		}
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
