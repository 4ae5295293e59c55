// Package measure turns counts into evidence: trials over a device under test, what limited them, what they cost, and
// whether two sets of trials differ.
//
// A Run is one measurement with everything needed to judge it: every sample, the spread, the machine, what generator
// and receiver could do alone, which counters saw the lost packets, and warnings as data. A run file holds it, --json
// prints it and package report draws it.
//
// Nothing here touches the machine. Bench drives any implementation of Path; package rig (below this one) implements it
// with package traffic. The statistics make no assumption about distributions: medians with intervals from order
// statistics, rank tests, and interleaving against drift.
package measure
