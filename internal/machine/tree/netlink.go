package tree

import (
	"errors"
	"fmt"
	"os"

	"github.com/mdlayher/netlink"
)

// Netlink returns the kernel's errno in an error of netlink, with the kernel's own explanation if it gave one.
func Netlink(err error) error {
	var op *netlink.OpError
	switch {
	case !errors.As(err, &op):
		return err
	case op.Message != "":
		return fmt.Errorf("%w: %s", Errno(op.Err), op.Message)
	}
	return Errno(op.Err)
}

// Errno returns the errno in an error of a system call.
func Errno(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}
