// Package rig puts the ends of a measurement together: a generator and a sink of package traffic, in network namespaces
// of this machine or with an agent at the far end, as a measure.Path. It makes what a measurement needs for a while (a
// veth pair into a bridge, a namespace to try the gear in) and takes it away again, also what a run that was killed
// left behind.
package rig
