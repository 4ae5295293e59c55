package threads

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
)

// KeepOff keeps this process, and what it starts from now on, off CPUs that are measured. Where it has no others it
// stays where it is, and says so by an empty set.
func KeepOff(cpus setting.CPUSet) (setting.CPUSet, error) {
	own, err := getAffinity(0)
	if err != nil {
		return nil, err
	}
	rest := own.Minus(cpus)
	if len(rest) == 0 || len(rest) == len(own) {
		return rest, nil
	}
	for range 2 { // a thread that was started meanwhile by one not yet moved
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
