//go:build !amd64

package cpu

// HypervisorSignature needs an x86 processor; elsewhere the firmware's tables tell.
func HypervisorSignature() string { return "" }
