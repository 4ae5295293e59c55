package wakeloop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// The load of one thread: a buffer that exceeds any private cache. All threads together take at most 1/loadShare of the
// available memory.
const (
	loadBytes = 64 << 20
	loadShare = 8
)

// Load keeps CPUs busy until the time is up or the context ends. A thread of the lowest priority on each copies memory,
// and from time to time frees pages, which makes the kernel interrupt other CPUs. It takes at most an eighth of the
// available memory.
func Load(ctx context.Context, cpus []int, limit time.Duration) error {
	available, err := memAvailable()
	if err != nil {
		return err
	}
	size := min(loadBytes, available/loadShare/uint64(max(len(cpus), 1))) &^ 4095
	if size < 1<<20 {
		return fmt.Errorf("%d MiB of memory are available: too few for a load on %d CPUs", available>>20, len(cpus))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	runtime.GOMAXPROCS(len(cpus) + 1)
	errs := make([]error, len(cpus))
	var all sync.WaitGroup
	for i, cpu := range cpus {
		all.Add(1)
		thread.Go(func() {
			defer all.Done()
			errs[i] = burn(ctx, cpu, int(size))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func burn(ctx context.Context, cpu, size int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("the lowest priority: %w", err)
	}
	from, err := memory(size / 2)
	if err != nil {
		return err
	}
	to, err := memory(size / 2)
	if err != nil {
		return err
	}
	for round := 1; ctx.Err() == nil; round++ {
		const piece = 1 << 18
		for at := 0; at+piece <= len(from) && ctx.Err() == nil; at += piece {
			copy(to[at:at+piece], from[at:])
		}
		from, to = to, from
		if round%64 == 0 { // freeing pages makes the kernel interrupt other CPUs
			if err := unix.Madvise(to, unix.MADV_DONTNEED); err != nil {
				return fmt.Errorf("give memory back: %w", err)
			}
		}
	}
	return errors.Join(unix.Munmap(from), unix.Munmap(to))
}

func memory(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", size, err)
	}
	return b, nil
}

// memAvailable returns MemAvailable of /proc/meminfo, in bytes.
func memAvailable() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return parseAvailable(string(text))
}

func parseAvailable(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "MemAvailable:" && f[2] == "kB" {
			n, err := strconv.ParseUint(f[1], 10, 50)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo: there is no MemAvailable")
}
