// Package tune is the closed loop: measure, ask what holds the path back, try what acts there, keep what is proven to
// help and take back what is not, until the target holds, nothing is left, or the time is over. It is pure: what it
// does to a machine and what it measures goes through Host, which the command implements on the real one and package
// simulated as arithmetic.
package tune
