package domain

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a path's values.
type kind struct {
	allowed string // in words, for messages
	// canon returns the canonical spelling; ok is false if the text is no value. It is generous, since it also reads
	// what others wrote.
	canon func(string) (string, bool)
	valid func(v string) *ValueError // refuses a canonical value that no document may have; may be nil
	// validIn refuses a canonical value in this document, or on this element: the one at the rule's anchor, such as an
	// interface. It may be nil. The caller fills in Path and Found.
	validIn func(v string, on *element, d *Doc) *ValueError
}

func refuse(allowed, hint string) *ValueError { return &ValueError{Allowed: allowed, Advice: hint} }

// never refuses every value. on says on what: "an interface of type user".
func never(on, hint string) *ValueError {
	return &ValueError{Allowed: "nothing on " + on, Advice: hint, Never: true}
}

func canonSet(s string) (string, bool) {
	set, err := ParseSet(s)
	return FormatSet(set), err == nil
}

func canonInt(s string) (string, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	return strconv.FormatUint(n, 10), err == nil
}

// assignments reads words of the form KEY=VALUE. ok is false for a word without a value and for a repeated key.
func assignments(words []string) (given map[string]string, ok bool) {
	given, ok = map[string]string{}, true
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		_, twice := given[key]
		ok = ok && value != "" && !twice
		given[key] = value
	}
	return given, ok
}

func canonWord(s string) (string, bool) {
	s = strings.TrimSpace(s)
	return s, s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

func intKind(low, high int, hint string) kind {
	allowed := fmt.Sprintf("%d to %d", low, high)
	return kind{allowed: allowed, canon: canonInt, valid: func(v string) *ValueError {
		if n, _ := strconv.Atoi(v); n < low || n > high {
			return refuse(allowed, hint)
		}
		return nil
	}}
}

func wordKind(hint string, words ...string) kind {
	allowed := strings.Join(words, ", ")
	return kind{allowed: allowed, canon: canonWord, valid: func(v string) *ValueError {
		if !slices.Contains(words, v) {
			return refuse(allowed, hint)
		}
		return nil
	}}
}

var (
	cpuSet   = kind{allowed: "CPU numbers and ranges such as 0-3,8,^2", canon: canonSet}
	nodeSet  = kind{allowed: "NUMA node numbers and ranges such as 0-1", canon: canonSet}
	yesNo    = wordKind("", "yes", "no")
	onOff    = wordKind("", "on", "off")
	presence = wordKind("to take it away, delete the path", "yes")

	numaMode = wordKind("", "strict", "preferred", "interleave", "restrictive")
)

func formatKiB(kib uint64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && kib > 0 && kib%1024 == 0 {
		kib, i = kib/1024, i+1
	}
	return strconv.FormatUint(kib, 10) + units[i]
}

// scaleKiB converts a number with libvirt's unit to KiB, rounded up (src/util/virutil.c, virScaleInteger; memory
// defaults to KiB). ok is false if the unit is unknown or the number too large.
func scaleKiB(n uint64, unit string) (uint64, bool) {
	var scale uint64
	switch unit = strings.ToLower(unit); unit {
	case "b", "bytes":
		return n/1024 + min(n%1024, 1), true
	case "":
		scale = 1024
	default:
		i := strings.IndexByte("kmgtpe", unit[0])
		if i < 0 {
			return 0, false
		}
		base := uint64(1024)
		switch unit[1:] {
		case "", "ib":
		case "b":
			base = 1000
		default:
			return 0, false
		}
		scale = 1
		for ; i >= 0; i-- {
			scale *= base
		}
	}
	high, low := bits.Mul64(n, scale)
	if high != 0 || low > 1<<63 {
		return 0, false
	}
	return low/1024 + min(low%1024, 1), true
}
