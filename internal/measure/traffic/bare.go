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

// BareLoop sends the same frame as fast as the kernel's live frames go, from one CPU, until ctx is done: a program that
// redirects and writes nothing. It shows what the generator's own work costs on top; nothing is counted. The frame's
// addresses may be left out: they are zero then.
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
	// An index belongs to the namespace of the thread that writes it (dev_map_update_elem in kernel/bpf/devmap.c).
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
		// Until it has seen it: a call may begin between the look at the context and the signal.
		if t := tid.Load(); t != 0 {
			_ = unix.Tgkill(os.Getpid(), int(t), endRun) // gone already is as good
		}
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
