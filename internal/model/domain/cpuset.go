package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the largest number in a CPU or node set: VIR_DOMAIN_CPUMASK_LEN is 16384 (src/conf/domain_conf.h).
const maxCPU = 16383

// maxSetText bounds the work on hostile text; every second number up to maxCPU fits in it.
const maxSetText = 64 << 10

// ParseSet reads a set of CPU or node numbers in libvirt's syntax (src/util/virbitmap.c, virBitmapParse): "0-3,8,^2",
// evaluated from left to right, ^N removing one number. It returns each number once, sorted. As in libvirt, an empty
// set is an error.
func ParseSet(text string) ([]int, error) {
	if len(text) > maxSetText {
		return nil, fmt.Errorf("a set of %d characters, at most %d allowed", len(text), maxSetText)
	}
	in, work := make([]bool, 64), 0
	for _, part := range strings.Split(text, ",") {
		part = strings.Trim(part, " \t\n\r")
		single, out := strings.CutPrefix(part, "^")
		from, to, span := strings.Cut(single, "-")
		a, errA := setNumber(strings.TrimRight(from, " \t\n\r"))
		b, errB := a, error(nil)
		if span {
			b, errB = setNumber(strings.TrimLeft(to, " \t\n\r"))
		}
		switch {
		case errA != nil:
			return nil, errA
		case errB != nil:
			return nil, errB
		case span && out:
			return nil, fmt.Errorf("%q takes out a range, libvirt takes out single numbers only", clip(part))
		case b < a:
			return nil, fmt.Errorf("range %q runs backwards", clip(part))
		}
		if work += b - a + 1; work > 8*(maxCPU+1) {
			return nil, fmt.Errorf("the set names the same numbers over and over")
		}
		if b >= len(in) {
			in = append(in, make([]bool, b+1-len(in))...)
		}
		for n := a; n <= b; n++ {
			in[n] = !out
		}
	}
	var set []int
	for n, is := range in {
		if is {
			set = append(set, n)
		}
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("the set %q is empty", clip(text))
	}
	return set, nil
}

// setNumber reads one number without a sign or white space.
func setNumber(s string) (int, error) {
	if s == "" || len(s) > 9 || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number", clip(s))
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", clip(s))
	}
	if n > maxCPU {
		return 0, fmt.Errorf("%d is beyond %d, the last that libvirt knows", n, maxCPU)
	}
	return n, nil
}

// FormatSet writes a set as libvirt does (virBitmapFormat): "0-1,4". The numbers need not be sorted.
func FormatSet(set []int) string {
	set = slices.Clone(set)
	slices.Sort(set)
	set = slices.Compact(set)
	var b strings.Builder
	for i := 0; i < len(set); {
		j := i
		for j+1 < len(set) && set[j+1] == set[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(set[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(set[j]))
		}
		i = j + 1
	}
	return b.String()
}
