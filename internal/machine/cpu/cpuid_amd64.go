package cpu

import "encoding/binary"

// cpuid asks the processor that this runs on (Intel SDM volume 2A, CPUID).
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// HypervisorSignature is what the hypervisor that this runs under calls itself, empty on bare metal: leaf 1 has bit 31
// of ECX set under every hypervisor, leaf 40000000h then has a name of twelve bytes.
func HypervisorSignature() string {
	const present = 1 << 31
	if _, _, c, _ := cpuid(1, 0); c&present == 0 {
		return ""
	}
	_, b, c, d := cpuid(0x40000000, 0)
	name := binary.LittleEndian.AppendUint32(nil, b)
	name = binary.LittleEndian.AppendUint32(name, c)
	name = binary.LittleEndian.AppendUint32(name, d)
	return string(name)
}
