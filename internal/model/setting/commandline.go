package setting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flag is the canonical value of a kernel argument without a value ("quiet").
const Flag = "present"

// CommandLine is the words of a kernel command line. The kernel separates words at white space outside double quotes
// (lib/cmdline.c, next_arg), treats "-" and "_" in names as equal (kernel/params.c, parameq), and hands everything
// after a word "--" to init.
type CommandLine []string

// ParseCommandLine splits a command line into words.
func ParseCommandLine(text string) CommandLine {
	var words CommandLine
	begin, quoted := -1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'):
			if begin >= 0 {
				words = append(words, text[begin:i])
			}
			begin = -1
		default:
			if begin < 0 {
				begin = i
			}
			if c == '"' {
				quoted = !quoted
			}
		}
	}
	if begin >= 0 {
		words = append(words, text[begin:])
	}
	return words
}

// String returns the command line with one space between words.
func (c CommandLine) String() string { return strings.Join(c, " ") }

// ArgumentName returns a name as the kernel compares it, with "_" for "-".
func ArgumentName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Argument returns name and value of a word, and whether it has a value. Quotes around the whole word or the value are
// removed.
func Argument(word string) (name, value string, has bool) {
	if len(word) > 1 && word[0] == '"' && word[len(word)-1] == '"' {
		word = word[1 : len(word)-1]
	}
	name, value, has = strings.Cut(word, "=")
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	return name, value, has
}

// ForKernel returns the part before "--", which the kernel parses.
func (c CommandLine) ForKernel() CommandLine {
	if i := slices.Index(c, "--"); i >= 0 {
		return c[:i]
	}
	return c
}

// argumentNames returns the names in the path of a KernelArg address.
func argumentNames(path string) []string { return strings.Split(path, "+") }

func isArgument(word, path string) bool {
	name, _, _ := Argument(word)
	return slices.ContainsFunc(argumentNames(path),
		func(other string) bool { return ArgumentName(name) == ArgumentName(other) })
}

// Get returns the reading of a KernelArg address: absent, Flag, or the value; all values if the argument is repeated.
// For a path of several names ("hugepagesz+hugepages", whose order counts) the value is the words.
func (c CommandLine) Get(path string) Reading {
	several := strings.Contains(path, "+")
	var found []string
	odd := false
	for _, word := range c.ForKernel() {
		if !isArgument(word, path) {
			continue
		}
		odd = odd || CheckWord(word) != nil
		_, value, has := Argument(word)
		switch {
		case several:
			found = append(found, word)
		case !has:
			found = append(found, Flag)
		case value == Flag:
			found = append(found, `"`+Flag+`"`)
		default:
			found = append(found, value)
		}
	}
	if len(found) == 0 {
		return Missing("not on the command line")
	}
	r := Value(strings.Join(found, " "))
	if odd {
		r.ReadOnly, r.Why = true, "it holds characters that boot loader files quote each in its own way"
	}
	return r
}

// MemParse returns the size that the kernel reads from an argument (lib/cmdline.c, memparse): a number, and K, M, G or
// T. What follows is ignored, as mm/hugetlb.c ignores it: hugepagesz=1GB is 1G.
func MemParse(text string) (bytes uint64, ok bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseUint(text[:end], 10, 32)
	shift := 0
	if end < len(text) {
		shift = 10 * (1 + strings.IndexByte("KMGT", text[end]&^0x20))
	}
	return n << shift, err == nil
}

// Words returns the words that put a value of a KernelArg address on a command line.
func Words(path, value string) ([]string, error) {
	for _, name := range argumentNames(path) {
		if strings.Contains(name, "=") {
			return nil, fmt.Errorf("%q is not the name of a kernel argument", name)
		}
	}
	if strings.Contains(path, "+") {
		words := strings.Fields(value)
		if len(words) == 0 {
			return nil, fmt.Errorf("expected at least one of the arguments %s", path)
		}
		for _, word := range words {
			if !isArgument(word, path) {
				return nil, fmt.Errorf("%q is not one of the arguments %s", word, path)
			}
			if err := CheckWord(word); err != nil {
				return nil, err
			}
		}
		return words, nil
	}
	var words []string
	for _, value := range strings.Fields(value) {
		word := path
		switch value {
		case Flag:
		case `"` + Flag + `"`:
			word += "=" + Flag
		default:
			word += "=" + value
		}
		if err := CheckWord(word); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		words = []string{path + "="}
	}
	return words, CheckWord(words[0])
}

// With returns the command line with another value at a KernelArg address, in place of the first of its words, or at
// the end of the kernel's part. Absent removes the words.
func (c CommandLine) With(path string, to Reading) (CommandLine, error) {
	var words []string
	switch to.State {
	case Known:
		var err error
		if words, err = Words(path, to.Value); err != nil {
			return nil, err
		}
	case Unknown:
		return nil, fmt.Errorf("an unknown value cannot be written")
	}
	if strings.Count(c.String(), `"`)%2 != 0 {
		return nil, fmt.Errorf("the command line holds a quote that is not closed: %s", c)
	}
	front := c.ForKernel()
	out := make(CommandLine, 0, len(c)+len(words))
	put := false
	for _, word := range front {
		if !isArgument(word, path) {
			out = append(out, word)
			continue
		}
		if !put {
			out, put = append(out, words...), true
		}
	}
	if !put {
		out = append(out, words...)
	}
	return append(out, c[len(front):]...), nil
}

// Without returns the command line without some arguments.
func (c CommandLine) Without(paths ...string) CommandLine {
	front := c.ForKernel()
	out := CommandLine{}
	for _, word := range front {
		if !slices.ContainsFunc(paths, func(path string) bool { return isArgument(word, path) }) {
			out = append(out, word)
		}
	}
	return append(out, c[len(front):]...)
}

// SameWords reports whether two command lines have the same words, in any order.
func (c CommandLine) SameWords(other CommandLine) bool {
	return slices.Equal(slices.Sorted(slices.Values(c)), slices.Sorted(slices.Values(other)))
}

// CheckWord refuses words that a boot loader's files could take for something else: white space, quotes, dollar signs
// and whatever else a shell or GRUB's own language would expand.
func CheckWord(word string) error {
	if word == "" || word == "--" || word[0] == '=' {
		return fmt.Errorf("%q is not a kernel argument", word)
	}
	for _, r := range word {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("_-.,:/=+@%", r) {
			return fmt.Errorf("%q holds %q, which cannot be written to every boot loader's files", word, r)
		}
	}
	return nil
}

func canonicalArgument(raw string) (string, error) {
	if strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == 0x7f }) {
		return "", fmt.Errorf("expected the value of a kernel argument, found %q", raw)
	}
	return strings.Join(strings.Fields(raw), " "), nil
}
