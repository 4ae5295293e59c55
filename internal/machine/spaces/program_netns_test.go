//go:build netns

package spaces

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"mpps/internal/must"
)

// attach puts a program at the ingress of a device, as Cilium does.
func attach(t *testing.T, device string) {
	t.Helper()
	at := must.Get(net.InterfaceByName(device))(t)
	program := must.Get(ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}))(t)
	t.Cleanup(func() { program.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: at.Index, Program: program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Skipf("tcx: %v", err)
	}
	t.Cleanup(func() { l.Close() })
}
