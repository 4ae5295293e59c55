// Package catalogue proves on an emulated KVM host that every knob which can be set there is set, seen by another
// program than mpps, and put back; or names, in exceptions.txt, why not and which test shows it otherwise.
package catalogue
