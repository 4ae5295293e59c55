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

// mask is a set of CPUs as bits, for the many set operations of a topology of a thousand CPUs. Trailing zero words do
// not count.
type mask []uint64

// parseMask reads the kernel's mask form: groups of up to 32 bits in hexadecimal, most significant first, separated by
// commas (lib/bitmap.c). White space around it does not count.
func parseMask(text string) (mask, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxMaskText {
		return nil, fmt.Errorf("expected a CPU mask of 1 to %d characters, found %d", maxMaskText, len(text))
	}
	groups := strings.Count(text, ",") + 1
	m := make(mask, (groups+1)/2)
	for i := groups - 1; i >= 0; i-- {
		group := text
		if comma := strings.IndexByte(text, ','); comma >= 0 {
			group, text = text[:comma], text[comma+1:]
		}
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

// maskOf makes a mask of a set.
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

// first is the lowest member, −1 of the empty set.
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

// within reports whether every member is one of another set too.
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

// members calls f with each member in rising order until it answers false.
func (m mask) members(f func(cpu int) bool) {
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			if !f(i*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// set is the mask as facts hold it.
func (m mask) set() setting.CPUSet {
	set := make(setting.CPUSet, 0, m.count())
	m.members(func(cpu int) bool { set = append(set, cpu); return true })
	if len(set) == 0 {
		return nil
	}
	return set
}

// sizeOf is a size with the kernel's unit letters (binary multiples), of a plain number times unit; 0 where there is
// none.
func sizeOf(d *tree.Folder, name string, unit uint64) uint64 {
	text := d.Line(name)
	for i, letter := range []string{"K", "M", "G"} {
		if rest, found := strings.CutSuffix(text, letter); found {
			text, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		if d != nil {
			d.AddMalformed(name, "a size", text)
		}
		return 0
	}
	return n * unit
}

// fileMask is a file's CPU mask and whether there is a valid one.
func fileMask(d *tree.Folder, name string) (mask, bool) {
	text, ok := d.Text(name)
	if !ok {
		return nil, false
	}
	m, err := parseMask(text)
	if err != nil {
		d.AddMalformed(name, "a CPU mask", text)
	}
	return m, err == nil
}

// listOf is a file's CPU list as a mask and whether there is a valid one.
func listOf(d *tree.Folder, name string) (mask, bool) {
	text, ok := d.Text(name)
	if !ok {
		return nil, false
	}
	text, _, _ = strings.Cut(text, "\x00") // which recordings of old kernels have at the end
	set, err := setting.ParseCPUs(text)
	if err != nil {
		d.AddMalformed(name, "a list of CPUs or nodes", text)
	}
	return maskOf(set), err == nil
}

// eitherOf is the first of a mask file and a list file that is there.
func eitherOf(d *tree.Folder, maskName, listName string) (mask, bool) {
	if m, ok := fileMask(d, maskName); ok {
		return m, true
	}
	return listOf(d, listName)
}
