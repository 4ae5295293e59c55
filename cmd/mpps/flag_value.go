package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mpps/internal/measure/traffic"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// flagValue is a flag whose text is read when it is given, so that what is wrong with it is said of the flag that was
// given.
type flagValue[T any] struct {
	to         *T
	parse      func(string) (T, error)
	text, kind string
}

// Set reads the text. That a text is empty is said by notEmpty.
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

// readAtOnce marks flags whose text is read when it is given.
func (v *flagValue[T]) readAtOnce() {}

func (v *flagValue[T]) String() string { return v.text }

// Type is the placeholder in the help.
func (v *flagValue[T]) Type() string { return v.kind }

// badValue is what is wrong with a flag's value. Its text follows the flag's name.
type badValue struct{ error }

func (b *badValue) Unwrap() error { return b.error }

// flagError words what pflag complains about.
func flagError(err error) error {
	var at *pflag.InvalidValueError
	var bad *badValue
	if errors.As(err, &at) && errors.As(err, &bad) {
		return fmt.Errorf("--%s%w", at.GetFlag().Name, bad.error)
	}
	return err
}

// valueVar adds a flag, or with NAME,N one with a short form; otherwise is its default as a text, empty for the zero
// value.
func valueVar[T any](flags *pflag.FlagSet, to *T, name, otherwise, use string, parse func(string) (T, error)) {
	v := &flagValue[T]{to: to, kind: "string", text: otherwise, parse: parse}
	if otherwise != "" {
		*to, _ = parse(otherwise)
	}
	name, short, _ := strings.Cut(name, ",")
	flags.VarP(v, name, short, use)
}

// listVar adds a flag that may be repeated.
func listVar[T any](flags *pflag.FlagSet, to *[]T, name, use string, parse func(string) (T, error)) {
	valueVar(flags, to, name, "", use, func(text string) ([]T, error) {
		v, err := behindColon(parse(text))
		return append(*to, v), err
	})
	flags.Lookup(name).Value.(*flagValue[[]T]).kind = "stringArray"
}

// textVar adds a flag that is kept as the text that it is, once it could be read.
func textVar[T any](flags *pflag.FlagSet, to *string, name, otherwise, use string, parse func(string) (T, error)) {
	valueVar(flags, to, name, otherwise, use, func(text string) (string, error) {
		_, err := parse(text)
		return text, err
	})
}

func parseRate(text string) (float64, error) { return behindColon(goal.ParseRate(text)) }

// parseMost reads a rate of more than nothing.
func parseMost(text string) (float64, error) {
	v, err := goal.ParseRate(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("expected more than nothing, found %q", text)
	}
	return behindColon(v, err)
}

func parseCPUs(text string) (setting.CPUSet, error) {
	set, err := setting.ParseCPUs(text)
	if err == nil && len(set) == 0 {
		err = errors.New("expected CPUs such as 1 or 2-3")
	}
	return behindColon(set, err)
}

func parseEndpoint(text string) (traffic.Endpoint, error) {
	return behindColon(traffic.ParseEndpoint(text))
}

func parseIPv4(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is4() {
		return ip, fmt.Errorf(" %q: expected an IPv4 address", text)
	}
	return ip, nil
}

// parseMAC reads the MAC address of one interface.
func parseMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, fmt.Errorf(" %q: expected the MAC address of an interface", text)
	}
	return mac, nil
}

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		err = fmt.Errorf(" %q: expected a time such as 5s", text)
	}
	return d, err
}

// behindColon sets a complaint that names the value itself off from the flag's name.
func behindColon[T any](value T, err error) (T, error) {
	if err != nil {
		err = fmt.Errorf(": %w", err)
	}
	return value, err
}

// choiceVar adds a flag with a few values.
func choiceVar(flags *pflag.FlagSet, to *string, name, otherwise, use string, choices ...string) {
	valueVar(flags, to, name, otherwise, use, func(text string) (string, error) {
		if !slices.Contains(choices, text) {
			last := len(choices) - 1
			return "", fmt.Errorf(" %q: expected %s or %s", text, strings.Join(choices[:last], ", "), choices[last])
		}
		return text, nil
	})
}

// intVar adds a flag for a number in a range.
func intVar(flags *pflag.FlagSet, to *int, name string, otherwise, least, most int, use string) {
	valueVar(flags, to, name, strconv.Itoa(otherwise), use, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			err = fmt.Errorf(" %s: expected %d to %d", text, least, most)
		}
		return n, err
	})
	flags.Lookup(name).Value.(*flagValue[int]).kind = "int"
}

// durationVar adds a flag for a time in a range; without an upper end where most is 0.
func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, otherwise, least, most time.Duration,
	use string) {
	valueVar(flags, to, name, otherwise.String(), use, func(text string) (time.Duration, error) {
		d, err := parseTime(text)
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
	})
	flags.Lookup(name).Value.(*flagValue[time.Duration]).kind = "duration"
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
