// Package measure turns counts into evidence: trials over a device under test, what limited them, what they cost, and
// whether two sets of them differ.
//
// A Run is one measurement with all that is needed to judge it: every sample, the spread, the machine it ran on, what
// the generator and the receiver could do alone, which counters saw the lost packets, and warnings as data. It is plain
// data: it is what a run file holds, what --json prints and what package report draws.
//
// Nothing here touches the machine. Bench drives anything that implements Path; package rig (below this one) implements
// it with package traffic. The statistics assume nothing about distributions: medians with intervals from order
// statistics, rank tests, and interleaving against drift.
package measure
