// Package rig sets up the ends of a measurement: a generator and a sink of package traffic, in network namespaces of
// this machine or with an agent at the far end, as a measure.Path. It makes what a measurement needs temporarily (a
// veth pair into a bridge, network namespaces) and removes it afterwards, so that even a run that is killed leaves
// nothing behind.
package rig
