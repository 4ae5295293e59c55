// Package forward measures a guest that routes, with every generator, in the emulated KVM host.
package forward
