// Package lasting proves on an emulated KVM host that applied values outlast what resets them, that mpps does not fight
// who changes them by hand, and that a change which cuts the operator's way in is undone by itself.
package lasting
