//go:build netns

package spaces

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// attach puts a program at the ingress of a device, as Cilium does.
func attach(t *testing.T, device string) {
	t.Helper()
	at, err := net.InterfaceByName(device)
	if err != nil {
		t.Fatal(err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: at.Index, Program: program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Skipf("tcx: %v", err)
	}
	t.Cleanup(func() { l.Close() })
}
