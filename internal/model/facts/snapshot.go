package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// MaxSnapshot is the largest snapshot that is read, in bytes. A host with 256 CPUs, 8 NICs of 64 queues and 200 guests
// makes one of about 10 MiB.
const MaxSnapshot = 256 << 20

// snapshot is the form of a snapshot file: that of every JSON answer.
type snapshot struct {
	Schema   string    `json:"schema"` // Schema
	Version  string    `json:"mpps"`
	Host     string    `json:"host"`
	Result   *Host     `json:"result"`
	Warnings []warning `json:"warnings"`
}

type warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Hint string `json:"hint"`
}

// Write writes a host as a snapshot. Version is that of the program. What could not be seen stands in it as warnings
// too.
func Write(w io.Writer, h *Host, version string) error {
	s := snapshot{Schema: Schema, Version: version, Host: h.Name, Result: Whole(h), Warnings: []warning{}}
	for _, unseen := range h.Unseen {
		s.Warnings = append(s.Warnings, warning{Code: "unseen", Text: unseen.What + ": " + unseen.Why})
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(s); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// SnapshotError says why a file is no snapshot that can be used.
type SnapshotError struct {
	Problem string
	Advice  string
}

func (e *SnapshotError) Error() string { return e.Problem }

// Hint says what to do.
func (e *SnapshotError) Hint() string { return e.Advice }

func bad(advice, format string, args ...any) *SnapshotError {
	return &SnapshotError{Problem: fmt.Sprintf(format, args...), Advice: advice}
}

const remake = "make a new one with 'mpps snapshot -o FILE'"

// ReadSnapshot reads what Write wrote. Nothing in the file is trusted: its size, nesting, number of elements and the
// CPUs that its lists name are bounded before anything is built of them, and names that would leave the directory or
// file name that they become part of are refused. Fields that this version does not know are ignored. An error about
// the content is a *SnapshotError.
func ReadSnapshot(r io.Reader) (*Host, error) {
	text, err := readBounded(r, MaxSnapshot)
	if err != nil {
		return nil, err
	}
	if err := survey(text); err != nil {
		return nil, err
	}
	var s snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, malformed(err, len(text))
	}
	if s.Result == nil {
		return nil, bad(remake, "it has no result")
	}
	if err := s.Result.check(); err != nil {
		return nil, err
	}
	if s.Result.Readings == nil {
		s.Result.Readings = Readings{}
	}
	return s.Result, nil
}

// readBounded reads the whole file of at most the given number of bytes, but gives up at the first bytes that cannot
// begin a snapshot: what is no JSON object is not read to its end, however large it is.
func readBounded(r io.Reader, most int64) ([]byte, error) {
	head := make([]byte, 4096)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	head = head[:n]
	switch start := bytes.TrimLeft(head, " \t\r\n"); {
	case n == 0:
		return nil, bad(remake, "it is empty")
	case len(start) == 0 && n < 4096:
		return nil, bad(remake, "it holds nothing but white space")
	case len(start) == 0 || start[0] != '{':
		return nil, bad(remake, "not a snapshot: expected a JSON object, found %q", clip(head, 16))
	case err != nil:
		return head, nil // all of it
	}
	text := bytes.NewBuffer(head)
	if _, err := io.Copy(text, io.LimitReader(r, most-int64(n)+1)); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if int64(text.Len()) > most {
		return nil, bad(remake, "it is larger than %d MiB", most>>20)
	}
	return text.Bytes(), nil
}

// malformed words an error of the JSON decoder.
func malformed(err error, length int) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(length), errors.Is(err, io.ErrUnexpectedEOF):
		return bad("it was not copied or written to its end; "+remake, "truncated after %d bytes", length)
	case errors.As(err, &syntax):
		return bad(remake, "not JSON at byte %d: %s", syntax.Offset, clip([]byte(syntax.Error()), 120))
	case errors.As(err, &kind):
		return bad(remake, "%s: expected %s, found %s", clip([]byte(kind.Field), 80), kind.Type, kind.Value)
	}
	return bad(remake, "%s", clip([]byte(err.Error()), 200))
}

// clip shortens text from a file for a message and takes out what could steer a terminal.
func clip(text []byte, most int) string {
	shown := strings.ToValidUTF8(string(text[:min(len(text), most)]), "?")
	shown = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, shown)
	if len(text) > most {
		shown += "…"
	}
	return shown
}

// check refuses a host that no machine has, or whose parts point beside each other: what reads it need not ask again.
func (h *Host) check() error {
	if err := h.checkNames(); err != nil {
		return err
	}
	t := &h.Topology
	if !slices.IsSortedFunc(t.CPUs, func(a, b CPU) int { return a.ID - b.ID }) {
		return bad(remake, "its CPUs are not in order")
	}
	for i, cpu := range t.CPUs {
		switch {
		case cpu.ID < 0 || cpu.ID >= maxCPUs || i > 0 && t.CPUs[i-1].ID == cpu.ID:
			return bad(remake, "CPU %d: expected each number from 0 to %d at most once", cpu.ID, maxCPUs-1)
		case cpu.L3 < -1 || cpu.L3 >= len(t.Caches):
			return bad(remake, "CPU %d: it has cache %d of %d", cpu.ID, cpu.L3, len(t.Caches))
		case cpu.Core < -1 || cpu.Core >= maxCPUs:
			return bad(remake, "CPU %d: core %d is not one", cpu.ID, cpu.Core)
		}
	}
	for _, node := range t.Nodes {
		if node.ID < 0 || node.ID >= maxNodes {
			return bad(remake, "NUMA node %d: expected 0 to %d", node.ID, maxNodes-1)
		}
	}
	if err := h.Load.check(); err != nil {
		return err
	}
	for _, n := range h.NICs {
		if err := within("NIC "+n.Name, maxQueues, n.RxQueues, n.TxQueues); err != nil {
			return err
		}
		if c := n.Channels; c != nil {
			if err := within("channels of NIC "+n.Name, maxQueues, c.Rx, c.Tx, c.Other, c.Combined, c.MaxRx, c.MaxTx,
				c.MaxOther, c.MaxCombined); err != nil {
				return err
			}
		}
	}
	for _, g := range h.Guests {
		if err := within("vCPUs of guest "+g.Name, maxCPUs, g.VCPUs, g.MaxVCPUs); err != nil {
			return err
		}
		if g.Inside != nil && g.Inside.Host != nil {
			if err := g.Inside.Host.check(); err != nil {
				return err
			}
		}
		for _, nic := range g.Interfaces {
			if err := within("queues of guest "+g.Name, maxQueues, nic.Queues); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bounds of numbers that others count up to.
const (
	maxCPUs   = 16384
	maxNodes  = 16384
	maxQueues = 65536 // of a device, in the kernel (MAX_TX_QUEUES is 4096 in most drivers)
)

func within(what string, most int, numbers ...int) error {
	for _, n := range numbers {
		if n < 0 || n > most {
			return bad(remake, "%s: expected 0 to %d, found %d", clip([]byte(what), 60), most, n)
		}
	}
	return nil
}

// checkNames refuses names that are more than one element of a path, or that hold control characters.
func (h *Host) checkNames() error {
	names := func(what string, list ...string) error {
		for _, name := range list {
			if name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00") ||
				strings.ContainsFunc(name, unicode.IsControl) {
				return bad(remake, "%s %q is not a name", what, clip([]byte(name), 60))
			}
		}
		return nil
	}
	errs := []error{names("host", h.Name)}
	for _, n := range h.NICs {
		errs = append(errs, names("NIC", n.Name, n.PCI, n.Driver, n.Master, n.PhysFn))
	}
	for _, b := range h.Bridges {
		errs = append(errs, names("bridge", b.Name), names("bridge port", b.Ports...))
	}
	for _, t := range h.Tunnels {
		errs = append(errs, names("tunnel", t.Name, t.Lower, t.Master))
	}
	for _, t := range h.Taps {
		errs = append(errs, names("tap", t.Name, t.Master, t.Guest))
	}
	for _, v := range h.VFs {
		errs = append(errs, names("VF", v.PF, v.PCI, v.Driver, v.NIC, v.Guest))
	}
	for _, s := range h.Services {
		errs = append(errs, names("service", s.Name))
	}
	for _, g := range h.Guests {
		errs = append(errs, names("guest", g.Name, g.UUID), names("PCI address", g.Hostdevs...))
		for _, nic := range g.Interfaces {
			errs = append(errs, names("tap", nic.Tap), names("MAC address", nic.MAC))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
