package threads

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
)

// KeepOff moves this process, and what it starts from now on, off measured CPUs, and returns the CPUs that it uses
// then. If it has no others it stays where it is and returns an empty set.
func KeepOff(cpus setting.CPUSet) (setting.CPUSet, error) {
	own, err := getAffinity(0)
	if err != nil {
		return nil, err
	}
	rest := own.Minus(cpus)
	if len(rest) == 0 || len(rest) == len(own) {
		return rest, nil
	}
	for range 2 { // twice, for threads started meanwhile by ones not yet moved
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			tid, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			if err := SetAffinity(tid, rest); err != nil && !errors.Is(err, unix.ESRCH) { // it ended meanwhile
				return nil, err
			}
		}
	}
	return rest, nil
}
