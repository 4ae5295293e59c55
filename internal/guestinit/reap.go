package guestinit

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reap removes dead orphans. It cannot tell which of process 1's children are orphans and which serve started, so it
// leaves a zombie alone for two seconds: a parent that waits for it takes it at once.
func reap() {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGCHLD)
	for range sig {
		for before := zombies(); len(before) > 0; {
			time.Sleep(2 * time.Second)
			now := zombies()
			for pid := range now {
				if before[pid] {
					// It may have been taken meanwhile.
					_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
					delete(now, pid)
				}
			}
			before = now
		}
	}
}

// zombies returns this process's children that have ended.
func zombies() map[int]bool {
	out := map[int]bool{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		if zombieOf(string(b), os.Getpid()) {
			out[pid] = true
		}
	}
	return out
}

// zombieOf reports whether a /proc/PID/stat is of a zombie with this parent: state and parent follow the name in
// parentheses.
func zombieOf(stat string, parent int) bool {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(parent)
}
