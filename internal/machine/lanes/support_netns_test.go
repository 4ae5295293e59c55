//go:build netns

package lanes

import (
	"testing"

	"github.com/cilium/ebpf/asm"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSupported: this kernel accepts the programs, as the other tests show, and tcx is probed as others do; a kernel
// that rejects a field is reported with the reason.
func TestSupported(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2)
	s, err := Supported()
	must.Hold(t, err == nil && s.Why == "", "%+v, %v", s, err)
	nothingLeft(t)
	prog := program(t, false)
	must.Do(t, prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2}}))
	if filters, err := prog.filters(prog.NIC, nicSide); err != nil || s.TCX != (len(filters) == 0) {
		t.Errorf("tcx %v, and written by %d filters, %v", s.TCX, len(filters), err)
	}
	must.Do(t, prog.Remove())
	spec := must.Get(loadLanes())(t)
	// skb->len may not be written.
	spec.Programs["mpps_lane_nic"].Instructions = asm.Instructions{asm.StoreImm(asm.R1, 0, 1, asm.Word),
		asm.Mov.Imm(asm.R0, -1), asm.Return()}
	if s, err := supported(spec); err != nil || s.Why == "" || s.TCX {
		t.Errorf("a program that it does not take: %+v, %v", s, err)
	}
}
