package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

const ProcSwaps = "proc/swaps"

// SwapAreas reads /proc/swaps; a kernel without swap has no such file.
func SwapAreas(m *tree.Tree, h *facts.Host) []facts.SwapArea {
	text, err := m.Read(ProcSwaps)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			tree.AddUnseen(h, "swap areas", err)
		}
		return []facts.SwapArea{}
	}
	return ParseSwaps(text)
}

// ParseSwaps reads the lines of /proc/swaps (mm/swapfile.c, swap_show): name, type, size and used in KiB, priority.
// White space in the name is written in octal (\040). Lines that are none are skipped.
func ParseSwaps(text string) []facts.SwapArea {
	areas := []facts.SwapArea{}
	_, rest, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[0], "/") {
			continue
		}
		size, errSize := strconv.ParseUint(fields[2], 10, 53)
		used, errUsed := strconv.ParseUint(fields[3], 10, 53)
		priority, errPriority := strconv.Atoi(fields[4])
		if errors.Join(errSize, errUsed, errPriority) != nil {
			continue
		}
		areas = append(areas, facts.SwapArea{Name: unoctal(fields[0]), Type: fields[1], Size: size << 10,
			Used: used << 10, Priority: priority})
	}
	return areas
}

// unoctal turns \040 and the like back into the characters that they stand for (lib/string_helpers.c,
// string_escape_mem).
func unoctal(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// swap switches swap areas on and off.
type swap struct{ m *tree.Tree }

// include/linux/swap.h: the priority is in the low bits and counts only with the flag.
const (
	swapFlagPrefer   = 0x8000
	swapPriorityMask = 0x7fff
)

func (s swap) area(a setting.Address) (facts.SwapArea, bool, error) {
	text, err := s.m.Read(ProcSwaps)
	if err != nil {
		return facts.SwapArea{}, false, err
	}
	for _, area := range ParseSwaps(text) {
		if area.Name == "/"+a.Path {
			return area, true, nil
		}
	}
	return facts.SwapArea{}, false, nil
}

func (s swap) Read(_ context.Context, a setting.Address) setting.Reading {
	area, on, err := s.area(a)
	switch {
	case err != nil:
		return tree.Unreadable("/"+ProcSwaps, err)
	case on && area.Priority >= 0:
		return setting.Value("on " + strconv.Itoa(area.Priority))
	case on:
		return setting.Value("on")
	case !s.m.Exists(a.Path):
		return setting.NoObject("there is no /" + a.Path)
	}
	return setting.Value("off")
}

// Write switches an area on or off. Before it switches one off it looks whether the memory that is available holds what
// lies in it: otherwise the kernel reads pages back until it runs out and kills somebody.
func (s swap) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	if !s.m.Live() {
		return tree.Refusal(a, value, tree.ErrNotLive)
	}
	area, on, err := s.area(a)
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	path, err := unix.BytePtrFromString("/" + a.Path)
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	number, flags := uintptr(unix.SYS_SWAPOFF), uintptr(0)
	if value == "off" {
		if !on {
			return nil
		}
		text, err := s.m.Read("proc/meminfo")
		if err != nil {
			return tree.Refusal(a, value, err)
		}
		if err := roomFor(area.Used, cpu.Meminfo(text, "MemAvailable:")); err != nil {
			return tree.Refusal(a, value, err)
		}
	} else {
		number = unix.SYS_SWAPON
		if priority, given := strings.CutPrefix(value, "on "); given {
			n, err := strconv.Atoi(priority)
			if err != nil {
				return tree.Refusal(a, value, err)
			}
			flags = swapFlagPrefer | uintptr(n)&swapPriorityMask
		}
	}
	// swapoff(2) reads back all that lies there, which takes as long as it takes: the caller's deadline is only ours
	// where it has none.
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	err = setting.Within(ctx, func() error {
		if _, _, errno := unix.Syscall(number, uintptr(unsafe.Pointer(path)), flags, 0); errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	return nil
}

// roomFor refuses to bring more back into memory than there is room for, with an eighth to spare.
func roomFor(used, available uint64) error {
	if used > available-available/8 {
		return fmt.Errorf("%d MiB lie in it and only %d MiB of memory are available", used>>20, available>>20)
	}
	return nil
}
