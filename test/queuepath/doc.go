// Package queuepath watches and steers the queues that real guests' packets take, with vhost and a NIC of several
// queues, in the emulated KVM host.
package queuepath
