package setting

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxCPU limits CPU numbers in lists and masks to twice the kernel's largest NR_CPUS on x86 (8192), so that a hostile
// file cannot make a set of billions.
const maxCPU = 16384

// CPUSet is a set of CPU (or NUMA node) numbers, sorted, without repeats.
type CPUSet []int

// CPUs returns the set of the given numbers.
func CPUs(n ...int) CPUSet {
	set := slices.Clone(n)
	slices.Sort(set)
	return slices.Compact(set)
}

// ParseCPUs parses the kernel's list form ("0-3,8"), without strides ("10-14:2/4"), which no file that we read uses.
// Empty text is the empty set.
func ParseCPUs(list string) (CPUSet, error) {
	list = strings.TrimSpace(list)
	var set CPUSet
	if list == "" {
		return set, nil
	}
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := parseCPU(first)
		if err != nil {
			return nil, fmt.Errorf("CPU list %.80q: %w", list, err)
		}
		hi := lo
		if isRange {
			if hi, err = parseCPU(last); err != nil {
				return nil, fmt.Errorf("CPU list %.80q: %w", list, err)
			}
		}
		if hi < lo {
			return nil, fmt.Errorf("CPU list %.80q: range %q runs backwards", list, part)
		}
		if len(set)+hi-lo >= maxCPU { // "0-9999,0-9999,…" would cost any amount of memory
			return nil, fmt.Errorf("CPU list %.80q names more than %d CPUs", list, maxCPU)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			set = append(set, cpu)
		}
	}
	return CPUs(set...), nil
}

func parseCPU(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("expected a CPU number, found %q", text)
	}
	if n >= maxCPU {
		return 0, fmt.Errorf("CPU number %d is above %d", n, maxCPU-1)
	}
	return n, nil
}

// ParseCPUMask parses the kernel's mask form: hexadecimal groups of up to 32 bits, most significant first, separated by
// commas ("00000000,0000000f"; lib/bitmap.c, bitmap_parse).
func ParseCPUMask(mask string) (CPUSet, error) {
	mask = strings.TrimSpace(mask)
	groups := strings.Split(mask, ",")
	if len(groups) > maxCPU/32 {
		return nil, fmt.Errorf("CPU mask of %d groups is too long", len(groups))
	}
	var set CPUSet
	for i, group := range groups {
		word, err := strconv.ParseUint(group, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("CPU mask %q: expected hexadecimal groups of 32 bits, found %q", mask, group)
		}
		base := (len(groups) - 1 - i) * 32
		for word != 0 {
			bit := bits.TrailingZeros64(word)
			set = append(set, base+bit)
			word &^= 1 << bit
		}
	}
	return CPUs(set...), nil
}

// Mask returns the set in the kernel's mask form.
func (s CPUSet) Mask() string {
	if len(s) == 0 {
		return "0"
	}
	words := make([]uint32, s[len(s)-1]/32+1)
	for _, cpu := range s {
		words[cpu/32] |= 1 << (cpu % 32)
	}
	text := strconv.FormatUint(uint64(words[len(words)-1]), 16)
	for i := len(words) - 2; i >= 0; i-- {
		text += fmt.Sprintf(",%08x", words[i])
	}
	return text
}

// String returns the set in the kernel's list form, "" for the empty set.
func (s CPUSet) String() string {
	var parts []string
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		part := strconv.Itoa(s[i])
		if j > i {
			part += "-" + strconv.Itoa(s[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Words returns the set with its noun: "CPU 3", "CPUs 4-7", "no CPU".
func (s CPUSet) Words() string {
	switch len(s) {
	case 0:
		return "no CPU"
	case 1:
		return "CPU " + s.String()
	}
	return "CPUs " + s.String()
}

// Has reports whether a CPU is in the set.
func (s CPUSet) Has(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

// Minus returns the CPUs of s that are not in other.
func (s CPUSet) Minus(other CPUSet) CPUSet {
	return slices.DeleteFunc(slices.Clone(s), other.Has)
}

// And returns the CPUs that are in both sets.
func (s CPUSet) And(other CPUSet) CPUSet {
	return slices.DeleteFunc(slices.Clone(s), func(cpu int) bool { return !other.Has(cpu) })
}

// Or returns the CPUs that are in either set.
func (s CPUSet) Or(other CPUSet) CPUSet { return CPUs(append(slices.Clone(s), other...)...) }

// Equal reports whether two sets have the same CPUs.
func (s CPUSet) Equal(other CPUSet) bool { return slices.Equal(s, other) }

// MarshalText returns the list form.
func (s CPUSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the list form.
func (s *CPUSet) UnmarshalText(b []byte) error {
	set, err := ParseCPUs(string(b))
	if err != nil {
		return err
	}
	*s = set
	return nil
}
