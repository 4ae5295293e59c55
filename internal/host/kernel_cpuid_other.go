//go:build !amd64

package host

// hypervisorSignature needs an x86 processor; elsewhere the firmware's tables tell.
func hypervisorSignature() string { return "" }
