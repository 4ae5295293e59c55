// Package guestinit is what a static program does as init (process 1) of a guest that mpps or its lab makes: it mounts
// the kernel's file systems, loads the modules for the devices it finds, configures the NICs, reaps orphans, runs the
// caller's function, and powers the guest off when that returns or the power button is pressed. It keeps a QEMU guest
// agent in /bin running.
//
// The kernel command line configures it:
//
//	mpps.addr=NIC=ADDRESS/LENGTH   NIC by name or MAC; an empty address only brings it up
//	mpps.route=DESTINATION=GATEWAY DESTINATION is a prefix or "default"
//	mpps.forward=1                 IPv4 forwarding
//	mpps.ipv6=1                    keeps IPv6 on; it is off otherwise, so that its own packets disturb no count
//	mpps.hostname=NAME
package guestinit
