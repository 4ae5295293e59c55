package tree

import (
	"errors"
	"fmt"
	"os"

	"github.com/mdlayher/netlink"
)

// Netlink returns the errno of a netlink error, with the kernel's extended-ack message if there is one.
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

// Errno returns the errno of a system call's error; other errors are returned unchanged.
func Errno(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}
