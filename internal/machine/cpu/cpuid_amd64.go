package cpu

import "encoding/binary"

// cpuid executes the CPUID instruction (Intel SDM volume 2A).
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// HypervisorSignature returns the signature of the hypervisor, empty on bare metal. Every hypervisor sets bit 31 of ECX
// in leaf 1; leaf 40000000h then has the twelve bytes of the signature.
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
