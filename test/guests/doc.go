// Package guests tries what mpps does inside a guest through its agent, in the emulated KVM host, and compares it with
// what the same agent says to virsh.
package guests
