// Package faults proves that an apply can be killed at any point: its tests (make test-faults) kill the process at
// every position of the journal, and the whole machine at random ones, and look at what is left.
package faults
