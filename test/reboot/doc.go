// Package reboot proves on an emulated KVM host that boot arguments do what the program says of them: they are written
// through Debian's own grub-mkconfig, the host is booted with the command line that the menu which it made yields, and
// after a rollback and another boot everything is as before.
package reboot
