package cpu

import (
	"encoding/binary"
	"slices"
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// idleStates adds the C-states of a CPU (Documentation/admin-guide/pm/cpuidle.rst).
func idleStates(cpu *tree.Folder, p *facts.Power) {
	states := cpu.Folder("cpuidle")
	if states == nil {
		return
	}
	defer states.Close()
	for _, number := range states.Numbers("state") {
		at := "state" + strconv.Itoa(number)
		name := states.Line(at + "/name")
		if name == "" {
			continue
		}
		i := slices.IndexFunc(p.IdleStates, func(s facts.IdleState) bool { return s.Name == name })
		if i < 0 {
			i = len(p.IdleStates)
			p.IdleStates = append(p.IdleStates, facts.IdleState{
				Name: name, Desc: states.Line(at + "/desc"), Latency: states.Number(at+"/latency", 0),
			})
		}
		p.IdleStates[i].CPUs++
		if states.Number(at+"/disable", 0)&1 != 0 { // other bits are set by the driver or the latency limit
			p.IdleStates[i].Disabled++
		}
	}
}

// latencyLimit returns the wake-up latency limit in µs that is in force through /dev/cpu_dma_latency; nil if it cannot
// be read. The device reads as a 32-bit number (kernel/power/qos.c, cpu_latency_qos_read).
func latencyLimit(m *tree.Tree) *int {
	text, err := m.Read("dev/cpu_dma_latency")
	if err != nil || len(text) < 4 {
		return nil
	}
	limit := int(int32(binary.LittleEndian.Uint32([]byte(text))))
	return &limit
}
