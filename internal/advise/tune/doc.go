// Package tune is the closed loop: measure, find the bottleneck, try what acts there, keep what is proven to help and
// undo the rest, until the target holds, nothing is left to try, or the budget is spent. It is pure: it changes and
// measures a machine only through Host, which ops/tuning implements on the real one and package simulated as
// arithmetic.
package tune
