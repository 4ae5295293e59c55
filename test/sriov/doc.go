// Package sriov has the tests of virtual functions on a real card and a real libvirt: an igb NIC of a host with systemd
// in the lab, from the bare card to guests and back.
package sriov
