package cpu

import (
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
		if states.Number(at+"/disable", 0)&1 != 0 { // other bits: the driver's own, or the latency limit's
			p.IdleStates[i].Disabled++
		}
	}
}

// latencyLimit is the wake-up latency in µs that somebody asks for through /dev/cpu_dma_latency: reading the device
// gives the limit in force as a 32-bit number (kernel/power/qos.c, cpu_latency_qos_read). nil where it cannot be read.
func latencyLimit(m *tree.Tree) *int {
	text, err := m.Read("dev/cpu_dma_latency")
	if err != nil || len(text) < 4 {
		return nil
	}
	limit := int(int32(uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24))
	return &limit
}
