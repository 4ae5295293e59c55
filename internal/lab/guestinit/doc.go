// Package guestinit is what a static program does when a lab's guest runs it as its init, process 1:
// it mounts the kernel's file systems, loads the modules of the devices that it finds, gives the NICs
// their addresses, reaps orphans, runs the caller's function and powers the guest off when that
// returns or the power button is pressed. Where there is a QEMU guest agent in /bin, it keeps that running.
//
// It is told by the kernel command line:
//
//	mpps.addr=NIC=ADDRESS/LENGTH   NIC by name or MAC; an empty address only brings it up
//	mpps.route=DESTINATION=GATEWAY DESTINATION is a prefix or "default"
//	mpps.forward=1                 IPv4 forwarding
//	mpps.ipv6=1                    IPv6 stays on; otherwise it is off, so that its own packets disturb no count
//	mpps.hostname=NAME
package guestinit
