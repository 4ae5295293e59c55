package owned

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// guard is argv[0] of this binary when it ends a process with its owner.
const guard = "mpps: guard"

// Guard has a process that is to outlive this one in the end, and so was started without Start, end with this one until
// release is called, SIGKILL included.
func Guard(pid int) (release func(), err error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	hold, cmd, err := tether(guard, process)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() {
		_, _ = hold.Write([]byte{1}) // it has ended if the process has
		_ = errors.Join(hold.Close(), <-ended)
	}, nil
}

func init() {
	if os.Args[0] == guard {
		watch := []unix.PollFd{{Fd: lifeline, Events: unix.POLLIN}, {Fd: tethered, Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(watch, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if watch[1].Revents != 0 { // the process has ended
			os.Exit(0)
		}
		if n, _ := unix.Read(lifeline, make([]byte, 1)); n == 0 {
			_ = unix.PidfdSendSignal(tethered, unix.SIGKILL, nil, 0)
		}
		os.Exit(0)
	}
}
