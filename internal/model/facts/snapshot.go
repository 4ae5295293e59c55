package facts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"mpps/internal/strictjson"
)

// MaxSnapshot is the size limit of a snapshot in bytes. A host with 256 CPUs, 8 NICs of 64 queues and 200 guests needs
// about 10 MiB.
const MaxSnapshot = 256 << 20

// MaxFleetSnapshot is the size limit of a snapshot that is read with many others, in bytes.
const MaxFleetSnapshot = 16 << 20

// snapshot is the file format: the envelope of every JSON answer.
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

// Write writes a host as a snapshot. version is the program's. Unseen parts become warnings too.
func Write(w io.Writer, h *Host, version string) error {
	s := snapshot{Schema: Schema, Version: version, Host: h.Name, Result: NonNil(h), Warnings: []warning{}}
	for _, unseen := range h.Unseen {
		s.Warnings = append(s.Warnings, warning{Code: "unseen", Text: unseen.What + ": " + unseen.Why})
	}
	for _, u := range h.Unverified {
		s.Warnings = append(s.Warnings, warning{Code: "unverified", Text: u.String()})
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(s); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// SnapshotError reports an unusable snapshot file.
type SnapshotError struct {
	Problem string
	Advice  string
}

func (e *SnapshotError) Error() string { return e.Problem }

// Hint returns the advice.
func (e *SnapshotError) Hint() string { return e.Advice }

func invalid(advice, format string, args ...any) *SnapshotError {
	return &SnapshotError{Problem: fmt.Sprintf(format, args...), Advice: advice}
}

const remake = "make a new one with 'mpps snapshot -o FILE'"

// ReadSnapshot reads what Write wrote. It trusts nothing in the file: size, nesting, number of elements and the CPUs in
// its lists are bounded before anything is built, and names that would escape their directory or file name are refused.
// Unknown fields are ignored. An error in the content is a *SnapshotError.
func ReadSnapshot(r io.Reader) (*Host, error) { return readSnapshot(r, MaxSnapshot, maxObjects) }

// ReadFleetSnapshot reads one of many snapshots: at most MaxFleetSnapshot bytes, and so few objects that what is built
// of them takes less than 100 MiB.
func ReadFleetSnapshot(r io.Reader) (*Host, error) {
	return readSnapshot(r, MaxFleetSnapshot, maxObjects/5)
}

func readSnapshot(r io.Reader, most int64, objects int) (*Host, error) {
	text, err := readBounded(r, most)
	if err != nil {
		return nil, err
	}
	if err := checkBounds(text, objects); err != nil {
		return nil, err
	}
	var s snapshot
	if err := strictjson.Unmarshal(text, &s); err != nil {
		return nil, decodeError(err, len(text))
	}
	if s.Result == nil {
		return nil, invalid(remake, "it has no result")
	}
	if err := s.Result.check(); err != nil {
		return nil, err
	}
	if s.Result.Readings == nil {
		s.Result.Readings = Readings{}
	}
	s.Result.findOwners()
	return s.Result, nil
}

// readBounded reads a file of at most most bytes. It gives up at the first bytes that cannot begin a snapshot, so that
// a large file of another kind is not read to its end.
func readBounded(r io.Reader, most int64) ([]byte, error) {
	head := make([]byte, 4096)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	head = head[:n]
	switch start := bytes.TrimLeft(head, " \t\r\n"); {
	case n == 0:
		return nil, invalid(remake, "it is empty")
	case len(start) == 0 && n < 4096:
		return nil, invalid(remake, "it holds nothing but white space")
	case len(start) == 0 || start[0] != '{':
		return nil, invalid(remake, "not a snapshot: expected a JSON object, found %q", clip(bytes.TrimSpace(head), 16))
	case err != nil:
		return head, nil // all of it
	}
	text := bytes.NewBuffer(head)
	if _, err := io.Copy(text, io.LimitReader(r, most-int64(n)+1)); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if int64(text.Len()) > most {
		return nil, invalid(remake, "it is larger than %d MiB", most>>20)
	}
	return text.Bytes(), nil
}

// decodeError describes an error of the JSON decoder.
func decodeError(err error, length int) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && syntax.Offset >= int64(length), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("it was not copied or written to its end; "+remake, "truncated after %d bytes", length)
	case errors.As(err, &syntax):
		return invalid(remake, "not JSON at byte %d: %s", syntax.Offset, clip([]byte(syntax.Error()), 120))
	case errors.As(err, &kind):
		return invalid(remake, "%s: expected %s, found %s", clip([]byte(kind.Field), 80), kind.Type, kind.Value)
	}
	return invalid(remake, "%s", clip([]byte(err.Error()), 200))
}

// clip shortens text from a file for a message and removes control characters, which could steer a terminal.
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

// check refuses impossible or inconsistent values, so that readers need not check again.
func (h *Host) check() error {
	if err := h.checkNames(); err != nil {
		return err
	}
	t := &h.Topology
	if !slices.IsSortedFunc(t.CPUs, func(a, b CPU) int { return a.ID - b.ID }) {
		return invalid(remake, "its CPUs are not in order")
	}
	for i, cpu := range t.CPUs {
		switch {
		case cpu.ID < 0 || cpu.ID >= maxCPUs || i > 0 && t.CPUs[i-1].ID == cpu.ID:
			return invalid(remake, "CPU %d: expected each number from 0 to %d at most once", cpu.ID, maxCPUs-1)
		case cpu.L3 < -1 || cpu.L3 >= len(t.Caches):
			return invalid(remake, "CPU %d: it has cache %d of %d", cpu.ID, cpu.L3, len(t.Caches))
		case cpu.Core < -1 || cpu.Core >= maxCPUs:
			return invalid(remake, "CPU %d: core %d is not one", cpu.ID, cpu.Core)
		}
	}
	for _, node := range t.Nodes {
		if node.ID < 0 || node.ID >= maxNodes {
			return invalid(remake, "NUMA node %d: expected 0 to %d", node.ID, maxNodes-1)
		}
		if err := node.checkMemory(); err != nil {
			return err
		}
	}
	errs := []error{h.Load.check()}
	for _, s := range h.Storage {
		errs = append(errs, checkRange("storage daemons "+s.Name, maxDaemons, s.Count))
	}
	for _, n := range h.NICs {
		errs = append(errs, checkRange("NIC "+n.Name, maxQueues, n.RxQueues, n.TxQueues))
		if c := n.Channels; c != nil {
			errs = append(errs, checkRange("channels of NIC "+n.Name, maxQueues, c.Rx, c.Tx, c.Other, c.Combined,
				c.MaxRx, c.MaxTx, c.MaxOther, c.MaxCombined))
		}
	}
	for _, g := range h.Guests {
		errs = append(errs, checkRange("vCPUs of guest "+g.Name, maxCPUs, g.VCPUs, g.MaxVCPUs))
		if g.Memory > maxMemory {
			errs = append(errs, invalid(remake, "guest %s: no host has %d bytes of memory", clip([]byte(g.Name), 60),
				g.Memory))
		}
		if g.Inside != nil && g.Inside.Host != nil {
			errs = append(errs, g.Inside.Host.check())
		}
		for _, nic := range g.Interfaces {
			errs = append(errs, checkRange("queues of guest "+g.Name, maxQueues, nic.Queues))
		}
	}
	return cmp.Or(errs...)
}

// Bounds of counts.
const (
	maxCPUs    = 16384
	maxNodes   = 16384
	maxDaemons = 1 << 22 // PID_MAX_LIMIT
	maxQueues  = 65536   // of a device, in the kernel (MAX_TX_QUEUES is 4096 in most drivers)
	maxMemory  = 1 << 52 // bytes: 52 physical address bits are the most that x86-64 and ARM64 have (LPA2)
)

// checkMemory refuses memory and pools of huge pages that no processor can address: their sums would overflow.
func (n *Node) checkMemory() error {
	most := max(n.Memory, n.Free, n.Available)
	for _, p := range n.Hugepages {
		count := max(p.Total, p.Free, p.Surplus, p.Reserved)
		if p.Size > maxMemory || p.Size > 0 && count > maxMemory/p.Size {
			return invalid(remake, "NUMA node %d: no host has %d pages of %d bytes", n.ID, count, p.Size)
		}
	}
	if most > maxMemory {
		return invalid(remake, "NUMA node %d: no host has %d bytes of memory", n.ID, most)
	}
	return nil
}

func checkRange(what string, most int, numbers ...int) error {
	for _, n := range numbers {
		if n < 0 || n > most {
			return invalid(remake, "%s: expected 0 to %d, found %d", clip([]byte(what), 60), most, n)
		}
	}
	return nil
}

// checkNames refuses names that are not a single path element, or that contain control characters.
func (h *Host) checkNames() error {
	names := func(what string, list ...string) error {
		for _, name := range list {
			if name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00") ||
				strings.ContainsFunc(name, unicode.IsControl) {
				return invalid(remake, "%s %q is not a name", what, clip([]byte(name), 60))
			}
		}
		return nil
	}
	devices := func(list ...string) error { // the kernel has none without a name (net/core/dev.c, dev_valid_name)
		if slices.Contains(list, "") {
			return invalid(remake, "a network device has no name")
		}
		return names("device", list...)
	}
	errs := []error{names("host", h.Name)}
	for _, n := range h.NICs {
		errs = append(errs, devices(n.Name), names("NIC", n.PCI, n.Driver, n.Master, n.PhysFn))
	}
	for _, b := range h.Bridges {
		errs = append(errs, devices(b.Name), devices(b.Ports...))
	}
	for _, t := range h.Tunnels {
		errs = append(errs, devices(t.Name), names("tunnel", t.Lower, t.Master), names("underlay", t.Underlay...))
	}
	for _, l := range h.Links {
		errs = append(errs, devices(l.Name), names("link", l.Kind, l.Master, l.Lower, l.Peer),
			names("underlay", l.Underlay...))
	}
	for n := range Each(h.Namespaces) {
		errs = append(errs, names("namespace", n.Name))
		for d := range Each(n.Devices) {
			errs = append(errs, devices(d.Name), names("device", d.Kind, d.Master, d.Lower, d.Peer, d.PCI),
				names("device", d.Redirects...))
			if d.Beyond != nil {
				errs = append(errs, names("device", d.Beyond.Device))
			}
		}
		if n.Routing != nil {
			errs = append(errs, names("device", n.Routing.Addressed...), names("device", n.Routing.Uplinks...))
		}
	}
	for _, p := range h.Pollers {
		errs = append(errs, names("poller", p.Functions...), names("NIC of a poller", p.NICs...))
	}
	if h.Routing != nil {
		errs = append(errs, names("device", h.Routing.Addressed...), names("device", h.Routing.Uplinks...))
	}
	for _, t := range h.Taps {
		errs = append(errs, devices(t.Name), names("tap", t.Master, t.Guest), names("device", t.Redirects...))
	}
	for _, v := range h.VFs {
		errs = append(errs, names("VF", v.PF, v.PCI, v.Driver, v.NIC, v.Guest))
	}
	for _, v := range h.VDPA {
		errs = append(errs, names("vDPA device", v.Name, v.PCI, v.Parent))
	}
	for _, s := range h.Services {
		errs = append(errs, names("service", s.Name))
	}
	for _, g := range h.Guests {
		errs = append(errs, names("guest", g.Name, g.UUID), names("PCI address", g.Hostdevs...), g.Owner.check(g.Name))
		for _, nic := range g.Interfaces {
			errs = append(errs, names("tap", nic.Tap), names("MAC address", nic.MAC))
		}
	}
	return cmp.Or(errs...)
}
