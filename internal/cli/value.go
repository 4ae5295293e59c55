package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// flagValue is a flag whose text is parsed as soon as it is given, so that errors name the flag.
type flagValue[T any] struct {
	to         *T
	parse      func(string) (T, error)
	text, kind string
	choices    []string // the values that it takes, if these are few
}

// Set parses the text. CheckValues refuses an empty one.
func (v *flagValue[T]) Set(text string) error {
	if text == "" {
		v.text = text
		return nil
	}
	value, err := v.parse(text)
	if err != nil {
		return &badValue{err}
	}
	*v.to, v.text = value, text
	return nil
}

// ReadAtOnce marks flags whose text is parsed as soon as it is given.
func (v *flagValue[T]) ReadAtOnce() {}

func (v *flagValue[T]) String() string { return v.text }

// Type returns the placeholder in the help.
func (v *flagValue[T]) Type() string { return v.kind }

// checked is a flag of another type whose value is also checked.
type checked struct {
	pflag.Value
	check func(text string) error
	later bool // than the parsing: before the command does anything
}

// Set sets the flag, then checks the text. CheckValues refuses an empty one.
func (c checked) Set(text string) error {
	if err := c.Value.Set(text); err != nil || text == "" || c.later {
		return err
	}
	if err := c.check(text); err != nil {
		return &badValue{err}
	}
	return nil
}

// ReadAtOnce marks flags whose text is checked before the command does anything.
func (c checked) ReadAtOnce() {}

// checkLater makes the check that Set did not make.
func (c checked) checkLater(values []string) error {
	if !c.later {
		return nil
	}
	for _, text := range values {
		if err := c.check(text); err != nil {
			return err
		}
	}
	return nil
}

// checkedSlice is checked for a flag of several values.
type checkedSlice struct {
	checked
	pflag.SliceValue
}

// Check has each text of a flag checked as it is parsed. The text of an error follows the flag's name.
func Check(flags *pflag.FlagSet, name string, check func(text string) error) {
	wrap(flags, name, check, false)
}

// CheckLater has the text of a flag checked against the machine before the command does anything.
func CheckLater(flags *pflag.FlagSet, name string, check func(text string) error) {
	wrap(flags, name, check, true)
}

func wrap(flags *pflag.FlagSet, name string, check func(text string) error, later bool) {
	f := flags.Lookup(name)
	c := checked{f.Value, check, later}
	f.Value = c
	hideZero(f)
	if many, is := c.Value.(pflag.SliceValue); is {
		f.Value = checkedSlice{c, many}
	}
}

// hideZero keeps a default of nothing out of the help: pflag knows those of its own types only.
func hideZero(f *pflag.Flag) {
	if f.DefValue == "[]" || f.DefValue == "0s" {
		f.DefValue = ""
	}
}

// OutputVar adds a flag for a file to write, - being standard output. Where it cannot be written is refused before
// anything is measured.
func OutputVar(flags *pflag.FlagSet, to *string, name, otherwise, use string) {
	name, short, _ := strings.Cut(name, ",")
	flags.StringVarP(to, name, short, otherwise, use)
	CheckLater(flags, name, func(file string) error {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return fmt.Errorf(" %q: expected a file, found a directory", file)
		}
		if info, err := os.Stat(filepath.Dir(file)); file != "-" && (err != nil || !info.IsDir()) {
			return fmt.Errorf(" %q: expected a file in a directory that is there", file)
		}
		return nil
	})
}

// badValue is an error in a flag's value. Its text follows the flag's name.
type badValue struct{ error }

func (b *badValue) Unwrap() error { return b.error }

// FlagError returns pflag's error about a value in our words.
func FlagError(err error) error {
	var at *pflag.InvalidValueError
	var bad *badValue
	if errors.As(err, &at) && errors.As(err, &bad) {
		return fmt.Errorf("--%s%w", at.GetFlag().Name, bad.error)
	}
	if at != nil {
		if expected, known := expectations[at.GetFlag().Value.Type()]; known {
			return fmt.Errorf("--%s %q: expected %s", at.GetFlag().Name, at.GetValue(), expected)
		}
	}
	return err
}

// expectations are what pflag's own types take.
var expectations = map[string]string{
	"duration": "a time such as 20us or 5s", "int": "a whole number", "int64": "a whole number",
	"uint": "a whole number", "uint16": "a whole number from 0 to 65535",
	"uint64": "a whole number", "float64": "a number", "bool": "true or false",
}

// ValueVar adds a flag; a name such as "output,o" has a short form too. otherwise is the default as text; empty: the
// zero value.
func ValueVar[T any](flags *pflag.FlagSet, to *T, name, otherwise, use string,
	parse func(string) (T, error)) *flagValue[T] {
	v := &flagValue[T]{to: to, kind: "string", text: otherwise, parse: parse}
	if otherwise != "" {
		*to, _ = parse(otherwise)
	}
	name, short, _ := strings.Cut(name, ",")
	flags.VarP(v, name, short, use)
	return v
}

// ListVar adds a flag that may be repeated.
func ListVar[T any](flags *pflag.FlagSet, to *[]T, name, use string, parse func(string) (T, error)) {
	ValueVar(flags, to, name, "", use, func(text string) ([]T, error) {
		v, err := AfterColon(parse(text))
		return append(*to, v), err
	}).kind = "stringArray"
}

// TextVar adds a flag that is kept as text if parse accepts it.
func TextVar[T any](flags *pflag.FlagSet, to *string, name, otherwise, use string, parse func(string) (T, error)) {
	ValueVar(flags, to, name, otherwise, use, func(text string) (string, error) {
		_, err := parse(text)
		return text, err
	})
}

func ParseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		err = fmt.Errorf(" %q: expected a time such as 5s", text)
	}
	return d, err
}

// AfterColon puts a colon between the flag's name and an error that names the value itself.
func AfterColon[T any](value T, err error) (T, error) { return value, Colon(err) }

// Colon is AfterColon for a check.
func Colon(err error) error {
	if err != nil {
		err = fmt.Errorf(": %w", err)
	}
	return err
}

// ChoiceVar adds a flag that takes one of at least two values.
func ChoiceVar(flags *pflag.FlagSet, to *string, name, otherwise, use string, choices ...string) {
	ValueVar(flags, to, name, otherwise, use, func(text string) (string, error) {
		if !slices.Contains(choices, text) {
			last := len(choices) - 1
			return "", fmt.Errorf(" %q: expected %s or %s", text, strings.Join(choices[:last], ", "), choices[last])
		}
		return text, nil
	}).choices = choices
}

// Choices returns the values that a flag takes, if these are few; for completion.
func (v *flagValue[T]) Choices() []string { return v.choices }

// IntVar adds a flag for a number in a range.
func IntVar(flags *pflag.FlagSet, to *int, name string, otherwise, least, most int, use string) {
	ValueVar(flags, to, name, strconv.Itoa(otherwise), use, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			err = fmt.Errorf(" %s: expected %d to %d", text, least, most)
		}
		return n, err
	}).kind = "int"
}

// NumberVar adds a flag for a number in a range, which may have decimals.
func NumberVar(flags *pflag.FlagSet, to *float64, name string, otherwise, least, most float64, use string) {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	ValueVar(flags, to, name, plain(otherwise), use, func(text string) (float64, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= least && v <= most) { // NaN too
			err = fmt.Errorf(" %s: expected %s to %s", text, plain(least), plain(most))
		}
		return v, err
	}).kind = "float64"
}

// DurationVar adds a flag for a time in a range; most 0 is no upper limit.
func DurationVar(flags *pflag.FlagSet, to *time.Duration, name string, otherwise, least, most time.Duration,
	use string) {
	ValueVar(flags, to, name, otherwise.String(), use, func(text string) (time.Duration, error) {
		d, err := ParseTime(text)
		switch {
		case err != nil:
		case most > 0 && (d < least || d > most):
			err = fmt.Errorf(" %v: expected %s to %s", d, brief(least), brief(most))
		case d < least && least <= 1:
			err = fmt.Errorf(" %v: expected more than nothing", d)
		case d < least:
			err = fmt.Errorf(" %v: expected %s or more", d, brief(least))
		}
		return d, err
	}).kind = "duration"
	hideZero(flags.Lookup(name))
}

// brief writes a time without the units that are 0: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	if short, is := strings.CutSuffix(text, "m0s"); is {
		text = short + "m"
	}
	if short, is := strings.CutSuffix(text, "h0m"); is {
		text = short + "h"
	}
	return text
}
