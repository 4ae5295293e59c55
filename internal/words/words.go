// Package words writes figures for people: in as many digits as their interval allows, with a unit or a noun.
package words

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// SI writes a value in n significant digits with k, M or G.
func SI(v float64, n int) string {
	v, unit := scaled(Round(v, n), 1000, "", " k", " M", " G")
	decimals := n - 1
	if v != 0 {
		decimals = max(0, n-1-magnitude(v))
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + unit
}

// Round rounds to n significant digits.
func Round(v float64, n int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(n-1-magnitude(v)))
	return math.Round(v*scale) / scale
}

// magnitude returns the power of ten of a value's first digit.
func magnitude(v float64) int { return int(math.Floor(math.Log10(math.Abs(v)))) }

// scaled divides a value by the largest of the units that it reaches, each a factor larger than the one before.
func scaled(v, factor float64, units ...string) (float64, string) {
	divisor, i := 1.0, 0
	for i < len(units)-1 && math.Abs(v) >= divisor*factor {
		divisor, i = divisor*factor, i+1
	}
	return v / divisor, units[i]
}

// Tick writes a round value in as few digits as it has, at most five.
func Tick(v float64) string {
	if v == 0 {
		return "0"
	}
	n := 1
	for n < 5 && math.Abs(Round(v, n)-v) >= math.Abs(v)*1e-6 {
		n++
	}
	return SI(v, n)
}

// Significant returns how many digits of a value an interval of some width allows, and extra ones: two to four.
func Significant(v, width float64, extra int) int {
	if width <= 0 || v == 0 {
		return 3
	}
	return min(max(int(math.Floor(math.Log10(math.Abs(v)/width)))+1+extra, 2), 4)
}

// Digits writes a value in as many digits as its interval allows.
func Digits(v, lo, hi float64) string {
	if v == 0 {
		return "0"
	}
	return SI(v, Significant(v, hi-lo, 0))
}

// Interval writes a value and, if it has one, its interval.
func Interval(v, lo, hi float64) string {
	if hi <= lo {
		return Digits(v, lo, hi)
	}
	return fmt.Sprintf("%s [%s, %s]", Digits(v, lo, hi), Digits(lo, lo, hi), Digits(hi, lo, hi))
}

// Times writes a ratio in two digits, three around 1 where the second says nothing.
func Times(ratio float64) string {
	switch {
	case ratio >= 100:
		return fmt.Sprintf("%.0f", ratio)
	case ratio > 0.8 && ratio < 1.25:
		return fmt.Sprintf("%.3g", ratio)
	}
	return fmt.Sprintf("%.2g", ratio)
}

// Percent writes a share, 0–1, with one decimal, and more if it is small.
func Percent(share float64) string {
	switch share *= 100; {
	case share == 0:
		return "0 %"
	case share < 0.1:
		return fmt.Sprintf("%.2g %%", share)
	}
	return strconv.FormatFloat(share, 'f', 1, 64) + " %"
}

// Share writes a share, 0–1, in whole percent, and with one decimal if it is small.
func Share(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "< 0.1 %"
	case share > 0 && share < 0.0095:
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return fmt.Sprintf("%.0f %%", share*100)
}

// Loss writes a share of packets, 0–1, in two digits.
func Loss(ratio float64) string {
	if ratio == 0 {
		return "none"
	}
	return fmt.Sprintf("%.2g %%", ratio*100)
}

// Duration writes nanoseconds in three digits, without trailing zeros.
func Duration(ns float64) string {
	v, unit := scaled(ns, 1000, " ns", " µs", " ms", " s")
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}

// Seconds writes a length of time: 3.2 s, 48 s, 3m34s.
func Seconds(s float64) string {
	switch {
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 120:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// Bytes writes a size with a binary unit in at most four digits.
func Bytes(n uint64) string {
	v, unit := scaled(float64(n), 1024, " B", " KiB", " MiB", " GiB", " TiB", " PiB")
	return fmt.Sprintf(Either(v == math.Trunc(v) || v >= 100, "%.0f", "%.1f"), v) + unit
}

// Grouped writes a count with thin spaces between groups of three digits.
func Grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteRune('\u2009')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// Count writes a number with its noun: "1 queue", "4 queues"; a second noun is the plural where an s is not enough.
func Count(n int, noun string, plural ...string) string {
	if n != 1 {
		noun = append(plural, noun+"s")[0]
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Are is the verb of a number: "is" of one, "are" of any other.
func Are(n int) string { return Either(n == 1, "is", "are") }

// NoBreak keeps a figure and its unit on one line.
func NoBreak(text string) string { return strings.ReplaceAll(text, " ", "\u00a0") }

// Sentence returns a text with a capital letter at its beginning, unless that is the name of a thread or device:
// vhost-2113, eth0.
func Sentence(text string) string {
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "0123456789") {
		return text
	}
	first, n := utf8.DecodeRuneInString(text)
	return If(n > 0, "%c", unicode.ToUpper(first)) + text[n:]
}

// Or returns the text, or "none" if it is empty.
func Or(text string) string { return Either(text == "", "none", text) }

// If returns the formatted text where it holds, and empty otherwise.
func If(holds bool, format string, args ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// Either returns the first value where it holds, and the second otherwise.
func Either[T any](holds bool, yes, no T) T {
	if holds {
		return yes
	}
	return no
}

// Each writes every value of a list.
func Each[T any](all []T, write func(T) string) []string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = write(v)
	}
	return texts
}

// Join joins the parts that are not empty.
func Join(separator string, parts ...string) string {
	there := slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" })
	return strings.Join(there, separator)
}
