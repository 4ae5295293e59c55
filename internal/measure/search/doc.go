// Package search finds the highest rate that a device forwards without loss (NDR, no drop rate) and with a small share
// of loss (PDR, partial drop rate), both in one run.
//
// Fast weighs hypotheses about the device: its capacity in a typical second, how much seconds differ, a buffer that
// hides overload from short trials, a collapse under overload, atypical seconds. A trial that loses packets shows the
// capacity itself, not just on which side of it the load was, so a few seconds are enough; if trials contradict each
// other it continues until they agree. Each reported bound was tried, or says that it comes from the model.
//
// Compliant places the bounds in the same way and proves the lower ones by final trials of 60 s, as required by RFC
// 2544 section 26.1 and the MLRsearch specification's (RFC 9971) goal for it.
//
// Everything here is pure: a Device may be a generator and a receiver, a driver of other programs, or arithmetic.
package search
