// Package realtime proves a plan for realtime from beginning to end on the emulated host: over a reboot into the kernel
// with PREEMPT_RT, with a guest that runs it too, and back. Everything that was set is seen by other programs than
// mpps.
package realtime
