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

// maxSwaps is more than it can have in bytes: 32 areas (MAX_SWAPFILES), each with a path.
const maxSwaps = 256 << 10

// SwapAreas returns the swap areas in /proc/swaps, which a kernel without swap does not have.
func SwapAreas(m *tree.Tree, h *facts.Host) []facts.SwapArea {
	text, err := m.Head(ProcSwaps, maxSwaps)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			tree.AddUnseen(h, "swap areas", err)
		}
		return []facts.SwapArea{}
	}
	return ParseSwaps(text)
}

// mostAreas is how many swap areas the kernel has (include/linux/swap.h, MAX_SWAPFILES_SHIFT).
const mostAreas = 1 << 5

// ParseSwaps reads the lines of /proc/swaps (mm/swapfile.c, swap_show): name, type, size and used in KiB, priority.
// White space in the name is escaped in octal (\040). It skips malformed lines, and what is beyond mostAreas.
func ParseSwaps(text string) []facts.SwapArea {
	areas := []facts.SwapArea{}
	_, rest, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(rest) {
		if len(areas) == mostAreas {
			break
		}
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
		areas = append(areas, facts.SwapArea{Name: unescapeOctal(fields[0]), Type: fields[1], Size: size << 10,
			Used: used << 10, Priority: priority})
	}
	return areas
}

// unescapeOctal decodes octal escapes such as \040 (lib/string_helpers.c, string_escape_mem).
func unescapeOctal(text string) string {
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

// swap turns swap areas on and off.
type swap struct{ m *tree.Tree }

// include/linux/swap.h: the priority is in the low bits and is used only with the flag.
const (
	swapFlagPrefer   = 0x8000
	swapPriorityMask = 0x7fff
)

func (s swap) area(a setting.Address) (facts.SwapArea, bool, error) {
	text, err := s.m.Head(ProcSwaps, maxSwaps)
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

// Write turns an area on or off. It refuses to turn one off if its pages do not fit into the available memory: the
// kernel would read pages back until memory runs out, and the OOM killer would start.
func (s swap) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		if !s.m.Live() {
			return tree.ErrNotLive
		}
		area, on, err := s.area(a)
		if err != nil {
			return err
		}
		path, err := unix.BytePtrFromString("/" + a.Path)
		if err != nil {
			return err
		}
		number, flags := uintptr(unix.SYS_SWAPOFF), uintptr(0)
		if value == "off" {
			if !on {
				return nil
			}
			text, err := s.m.Read("proc/meminfo")
			if err != nil {
				return err
			}
			if err := checkRoom(area.Used, cpu.Meminfo(text, "MemAvailable:")); err != nil {
				return err
			}
		} else {
			number = unix.SYS_SWAPON
			if priority, given := strings.CutPrefix(value, "on "); given {
				n, err := strconv.Atoi(priority)
				if err != nil {
					return err
				}
				flags = swapFlagPrefer | uintptr(n)&swapPriorityMask
			}
		}
		// swapoff(2) reads all pages back, however long that takes: a deadline of the caller takes precedence.
		ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
		defer cancel()
		return setting.Within(ctx, func() error {
			if _, _, errno := unix.Syscall(number, uintptr(unsafe.Pointer(path)), flags, 0); errno != 0 {
				return errno
			}
			return nil
		})
	})
}

// checkRoom returns an error unless used fits into seven eighths of the available memory; both are in bytes.
func checkRoom(used, available uint64) error {
	if used > available-available/8 {
		return fmt.Errorf("%d MiB lie in it and only %d MiB of memory are available", used>>20, available>>20)
	}
	return nil
}
