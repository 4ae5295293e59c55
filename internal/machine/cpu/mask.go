package cpu

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// mask is a set of CPUs as bits, for the many set operations on a topology of a thousand CPUs. Trailing zero words are
// ignored.
type mask []uint64

// parseMask reads the kernel's mask format: groups of up to 32 bits in hexadecimal, most significant first, separated
// by commas (lib/bitmap.c). It ignores surrounding white space.
func parseMask(text string) (mask, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxMaskText {
		return nil, fmt.Errorf("expected a CPU mask of 1 to %d characters, found %d", maxMaskText, len(text))
	}
	groups := strings.Count(text, ",") + 1
	m := make(mask, (groups+1)/2)
	for i := groups - 1; i >= 0; i-- {
		var group string
		group, text, _ = strings.Cut(text, ",")
		word, err := strconv.ParseUint(group, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("expected hexadecimal groups of 32 bits, found %q", group)
		}
		m[i/2] |= word << (32 * (i % 2))
	}
	return m, nil
}

// maxMaskText is the length of a mask of 16384 CPUs, twice the kernel's largest NR_CPUS on x86.
const maxMaskText = 16384 / 32 * 9

func maskOf(set setting.CPUSet) mask {
	var m mask
	for _, cpu := range set {
		m = m.with(cpu)
	}
	return m
}

// with adds a CPU; the receiver may be changed, as with append.
func (m mask) with(cpu int) mask {
	for len(m) <= cpu/64 {
		m = append(m, 0)
	}
	m[cpu/64] |= 1 << (cpu % 64)
	return m
}

func (m mask) has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(m) && m[cpu/64]&(1<<(cpu%64)) != 0
}

// first returns the lowest member; −1 if the set is empty.
func (m mask) first() int {
	for i, word := range m {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

func (m mask) empty() bool { return m.first() < 0 }

func (m mask) count() int {
	n := 0
	for _, word := range m {
		n += bits.OnesCount64(word)
	}
	return n
}

func (m mask) and(other mask) mask {
	both := slices.Clone(m[:min(len(m), len(other))])
	for i := range both {
		both[i] &= other[i]
	}
	return both
}

func (m mask) or(other mask) mask {
	either := slices.Clone(m)
	for i, word := range other {
		if i < len(either) {
			either[i] |= word
		} else {
			either = append(either, word)
		}
	}
	return either
}

func (m mask) minus(other mask) mask {
	rest := slices.Clone(m)
	for i := range rest {
		if i < len(other) {
			rest[i] &^= other[i]
		}
	}
	return rest
}

func (m mask) intersects(other mask) bool {
	for i := range min(len(m), len(other)) {
		if m[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// within reports whether every member is in another set too.
func (m mask) within(other mask) bool {
	for i, word := range m {
		if i < len(other) {
			word &^= other[i]
		}
		if word != 0 {
			return false
		}
	}
	return true
}

func (m mask) equal(other mask) bool { return m.within(other) && other.within(m) }

// members calls f with each member in rising order until f returns false: an iter.Seq.
func (m mask) members(f func(cpu int) bool) {
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			if !f(i*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// set returns the mask as a set for facts; nil if it is empty.
func (m mask) set() setting.CPUSet { return slices.Collect(m.members) }

// sizeOf returns a file's size in bytes: a number with the kernel's unit letters (binary multiples), or a plain number
// times unit; 0 if there is none.
func sizeOf(d *tree.Folder, name string, unit uint64) uint64 {
	text := d.Line(name)
	for i, letter := range []string{"K", "M", "G"} {
		if rest, found := strings.CutSuffix(text, letter); found {
			text, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		d.AddMalformed(name, "a size", text)
		return 0
	}
	return n * unit
}

// listFile returns a file's list of CPUs or nodes as a mask, and whether it is valid.
func listFile(d *tree.Folder, name string) (mask, bool) {
	text, ok := d.Text(name)
	if !ok {
		return nil, false
	}
	text, _, _ = strings.Cut(text, "\x00") // recordings of old kernels end in one
	set, err := setting.ParseCPUs(text)
	if err != nil {
		d.AddMalformed(name, "a list of CPUs or nodes", text)
	}
	return maskOf(set), err == nil
}

// maskOrList returns the set in a mask file, else in a list file, and whether one of them is valid.
func maskOrList(d *tree.Folder, maskName, listName string) (mask, bool) {
	if text, ok := d.Text(maskName); ok {
		m, err := parseMask(text)
		if err == nil {
			return m, true
		}
		d.AddMalformed(maskName, "a CPU mask", text)
	}
	return listFile(d, listName)
}
