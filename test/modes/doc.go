// Package modes measures every NIC mode of the emulated KVM host side by side, as a user does: by one command.
package modes
