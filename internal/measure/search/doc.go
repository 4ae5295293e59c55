// Package search finds the highest rate that a device forwards without loss (NDR, no drop rate) and the highest with a
// small share of loss (PDR, partial drop rate), both in one run.
//
// Fast weighs hypotheses of what the device is: its capacity in a typical second, how much seconds differ, a buffer
// that hides overload from short trials, a collapse under overload, seconds that are not typical. A trial that loses
// packets tells the capacity itself and not only on which side of it the load was, so a few seconds suffice; where
// trials contradict each other it goes on until they do not. Each bound that it reports was tried, or says that it
// comes from the model.
//
// Compliant places the bounds in the same way and proves the lower ones by final trials of 60 s, as RFC 2544 section
// 26.1 and the goal of the MLRsearch specification (RFC 9971) for it want them.
//
// Everything here is pure: a Device may be a generator and a receiver, a program that drives others, or arithmetic.
package search
