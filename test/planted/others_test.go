package planted

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, in which /proc counts CPU time on every architecture that mpps runs on.
const ticksPerSecond = 100

// cpuTime is what the scene and everybody have taken so far of the CPUs that the scene may use, in ticks. It counts
// user time: what the kernel does for the path is nobody's.
type cpuTime struct {
	at        time.Time
	ours, all uint64
}

// othersFloor is how many CPUs programs outside of a scene may take before an answer other than the expected one is put
// down to them.
const othersFloor = 0.25

// readCPUTime reads the user time of this process and all its descendants, and that of the CPUs: with what guests and
// the hypervisor below this machine took.
func readCPUTime(cpus []int) (cpuTime, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTime{}, err
	}
	t := cpuTime{at: time.Now()}
	for line := range strings.Lines(string(stat)) {
		fields := strings.Fields(line)
		n, err := strconv.Atoi(strings.TrimPrefix(fields[0], "cpu"))
		if err != nil || !slices.Contains(cpus, n) || len(fields) < 9 {
			continue
		}
		for _, at := range []int{1, 2, 8} { // user, nice, steal
			ticks, err := strconv.ParseUint(fields[at], 10, 64)
			if err != nil {
				return cpuTime{}, fmt.Errorf("/proc/stat: %q: %w", line, err)
			}
			t.all += ticks
		}
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return cpuTime{}, err
	}
	parents, ticks := map[int]int{}, map[int]uint64{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 15 {
			return cpuTime{}, errors.New(file + " is short")
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		for _, at := range []int{11, 13} { // utime, and cutime of the children that were waited for
			n, _ := strconv.ParseUint(fields[at], 10, 64)
			ticks[pid] += n
		}
	}
	for pid := range parents {
		for up := pid; up > 1; up = parents[up] {
			if up == os.Getpid() {
				t.ours += ticks[pid]
				break
			}
		}
	}
	return t, nil
}

// others returns how many CPUs programs outside of the scene took between two readings.
func others(before, after cpuTime) float64 {
	ticks := float64(after.all-before.all) - float64(after.ours-before.ours)
	return max(0, ticks) / ticksPerSecond / after.at.Sub(before.at).Seconds()
}
