//go:build netns

package trace

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"mpps/internal/must"
)

// capture counts what arrives on each receive queue of the wire's end, by tag: an XDP program in the driver, which is
// handed the number of the ring that a frame came through.
type capture struct {
	matrix, sum *ebpf.Map
	all         *ebpf.Map // with what the test has not marked
}

const (
	tags = 16
	mark = 0x5a // behind the tag
)

func newCapture(t testing.TB, ns string, index, tagAt int) *capture {
	t.Helper()
	c := &capture{}
	for at, entries := range map[**ebpf.Map]uint32{&c.matrix: wireQueues * tags, &c.sum: 1, &c.all: 1} {
		spec := &ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: entries}
		m := must.Get(ebpf.NewMap(spec))(t)
		t.Cleanup(func() { m.Close() })
		*at = m
	}
	count := func(m *ebpf.Map, end string) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, end),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		}
	}
	// struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
	}
	code = append(code, count(c.all, "drop")...)
	code = append(code, asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMem(asm.R7, asm.R1, 16, asm.Word),
		asm.LSh.Imm(asm.R7, 4),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(tagAt+2)),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, int16(tagAt+1), asm.Byte),
		asm.JNE.Imm(asm.R5, mark, "drop"), // the bridge's own
		asm.LoadMem(asm.R5, asm.R2, int16(tagAt), asm.Byte),
		asm.And.Imm(asm.R5, tags-1),
		asm.Add.Reg(asm.R7, asm.R5),
		asm.StoreMem(asm.RFP, -4, asm.R7, asm.Word),
	}...)
	code = append(code, count(c.matrix, "drop")...)
	code = append(code, asm.StoreImm(asm.RFP, -4, 0, asm.Word))
	code = append(code, count(c.sum, "drop")...)
	code = append(code, asm.Mov.Imm(asm.R0, 1).WithSymbol("drop"), asm.Return()) // XDP_DROP
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: code, License: "GPL"})
	if err != nil {
		t.Fatalf("counter on the wire: %v", err)
	}
	defer p.Close()
	n := must.Get(openNamespace(ns))(t)
	err = n.do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatalf("counter on the wire: %v", err)
	}
	return c
}

func read(t testing.TB, m *ebpf.Map, key uint32) (sum uint64) {
	t.Helper()
	var cpus []uint64
	must.Do(t, m.Lookup(key, &cpus))
	for _, n := range cpus {
		sum += n
	}
	return sum
}

func (c *capture) total(t testing.TB) uint64 { return read(t, c.sum, 0) }

func (c *capture) at(t testing.TB, queue, tag int) uint64 {
	return read(t, c.matrix, uint32(queue*tags+tag))
}
