// Package place has the tests of placement and definitions on a real libvirt: guests of a host with two NUMA nodes in
// the lab.
package place
