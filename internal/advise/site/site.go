// Package site reads /etc/mpps/site.yaml: local exceptions from the catalogue, with their reasons. It is a list of
// plain values without expressions:
//
//   - id: nic.ring.rx
//     want: 512
//     reason: measured here on 2026-03-04, ticket 1234
//   - id: sriov.vf.rate
//     address: vf-attr:ens1f0/3/max_tx_rate
//     want: 500
//     reason: customer pays for half a gigabit
//   - id: memory.thp
//     leave: true
//     reason: the database on this host asks for always
//   - guests: own
//     reason: no platform regenerates them here
//   - virsh: [podman, exec, -i, nova_libvirt, virsh]
//     connect: qemu:///system
package site

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lookup"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/owner"
	"mpps/internal/words"
)

// Path is the path of the file below the root.
const Path = "etc/mpps/site.yaml"

// maxBytes is the maximum size of the file; a thousand entries are about 100 kB.
const maxBytes = 1 << 20

// Absent is how the file spells a value that must not be there.
const Absent = "absent"

// Entry is one local exception.
type Entry struct {
	ID      string
	Address setting.Address // zero: all addresses of the knob
	Want    setting.Want    // not with Leave
	Leave   bool            // the values stay as they are
	Reason  string
}

// File is the site file. A nil File has no entries.
type File struct {
	Entries []Entry
	// the definitions of libvirt's guests are the operator's, whatever platform made them
	OwnGuests bool
	Libvirt   Libvirt
}

// Libvirt is how the host's libvirt is reached. Fields that are empty are the usual ones.
type Libvirt struct {
	Virsh   []string // the command that is virsh, without a shell: podman exec -i nova_libvirt virsh
	Connect string   // URI of the daemon: qemu:///system
}

// Or returns the way with empty fields taken from another.
func (l Libvirt) Or(other Libvirt) Libvirt {
	if len(l.Virsh) == 0 {
		l.Virsh = other.Virsh
	}
	l.Connect = cmp.Or(l.Connect, other.Connect)
	return l
}

// Check refuses what cannot be this host's libvirt.
func (l Libvirt) Check() error {
	if slices.Contains(l.Virsh, "") {
		return errors.New("virsh: expected a command and its arguments")
	}
	if l.Connect == "" {
		return nil
	}
	u, err := url.Parse(l.Connect)
	if err != nil || u.Host != "" || u.Path == "" || !strings.HasPrefix(u.Scheme, "qemu") {
		return fmt.Errorf("connect: expected QEMU's driver on this host, such as qemu:///system, found %q", l.Connect)
	}
	return nil
}

// Error is what is wrong with the file, and where.
type Error struct {
	File    string // its path below the root; empty: Path
	Entry   int    // counted from 1; 0: no entry, or the file as a whole
	Line    int    // of the wrong field or entry, counted from 1; 0: the file as a whole
	Problem string
	Advice  string
}

func (e *Error) Error() string {
	name := strings.TrimSuffix(path.Base(cmp.Or(e.File, Path)), ".yaml") + " file: "
	switch {
	case e.Line == 0:
		return name + e.Problem
	case e.Entry == 0:
		return fmt.Sprintf("%sline %d: %s", name, e.Line, e.Problem)
	}
	return fmt.Sprintf("%sline %d (entry %d): %s", name, e.Line, e.Entry, e.Problem)
}

// Hint says what to do.
func (e *Error) Hint() string { return e.Advice }

const form = "an entry is {id, want, reason} or {id, leave: true, reason}, with an address where only one value is " +
	"meant"

// Load reads the file below a root; nil if there is none.
func Load(root string) (*File, error) {
	text, err := read(root, Path)
	if text == nil || err != nil {
		return nil, err
	}
	return Parse(text)
}

// read returns the text of a file below a root, at most maxBytes and one more; nil if there is none.
func read(root, name string) ([]byte, error) {
	refused := func(err error, advice string) error { return &Error{File: name, Problem: err.Error(), Advice: advice} }
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, refused(err, "--root takes a directory")
	}
	defer dir.Close()
	f, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for its other end
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refused(err, "it must be readable, or not there")
	}
	defer f.Close()
	if err := checkOwner(dir, f, path.Dir(name)); err != nil {
		return nil, refused(err, "see what others wrote there; 'chown root' and 'chmod 644' it, and 755 its directory")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, refused(err, "it must be a file")
	}
	return text, nil
}

// checkOwner refuses a file that others can write or replace: what it says is set as root.
func checkOwner(root *os.Root, f *os.File, folder string) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err == nil {
		err = owner.Check(info)
	}
	if err != nil {
		return err
	}
	if info, err = root.Stat(folder); err == nil {
		err = owner.Check(info)
	}
	if err != nil {
		return fmt.Errorf("its directory: %w", err)
	}
	return nil
}

// entry is one element of the list as written.
type entry struct {
	ID      string    `yaml:"id"`
	Address string    `yaml:"address"`
	Want    yaml.Node `yaml:"want"`
	Leave   bool      `yaml:"leave"`
	Guests  string    `yaml:"guests"`
	Virsh   []string  `yaml:"virsh"`
	Connect string    `yaml:"connect"`
	Reason  string    `yaml:"reason"`
}

// Parse parses the text of a file. Its error is an *Error for the first mistake.
func Parse(text []byte) (*File, error) {
	if len(text) > maxBytes {
		return nil, &Error{Problem: fmt.Sprintf("it is larger than %d KiB", maxBytes>>10), Advice: form}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &File{}, nil
	}
	var list []entry
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{Problem: plainError(err), Advice: form}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Error{Problem: "there is more than one document in it (---)", Advice: "write one list"}
	}
	var document yaml.Node // the same again, for line numbers
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, &Error{Problem: plainError(err), Advice: form}
	}
	if len(document.Content) > 0 {
		for i, at := range document.Content[0].Content {
			if at.Tag == "!!null" { // the decoder skips these
				return nil, &Error{Entry: i + 1, Line: at.Line, Problem: "it is empty", Advice: form}
			}
		}
	}
	f := &File{}
	for i, written := range list {
		if written.ofHost() {
			if wrong := written.checkHost(); wrong != nil {
				return nil, &Error{Entry: i + 1, Line: lineOf(&document, i, wrong.field), Problem: wrong.problem,
					Advice: wrong.advice}
			}
			f.OwnGuests = f.OwnGuests || written.Guests != ""
			f.Libvirt = written.libvirt().Or(f.Libvirt)
			continue
		}
		e, wrong := written.check()
		first := slices.IndexFunc(f.Entries, func(other Entry) bool {
			return other.ID == e.ID && other.Address == e.Address
		})
		if wrong == nil && first >= 0 {
			wrong = &mistake{"id", fmt.Sprintf("%s is given twice, first at line %d", written.name(),
				lineOf(&document, first, "id")), "keep one of the two"}
		}
		if wrong != nil {
			return nil, &Error{Entry: i + 1, Line: lineOf(&document, i, wrong.field), Problem: wrong.problem,
				Advice: wrong.advice}
		}
		f.Entries = append(f.Entries, e)
	}
	return f, nil
}

// mistake is what is wrong with a field of an entry.
type mistake struct{ field, problem, advice string }

// lineOf returns the line of a field of an entry, or of the entry if it has no such field.
func lineOf(document *yaml.Node, entry int, field string) int {
	if len(document.Content) == 0 || entry >= len(document.Content[0].Content) {
		return 0
	}
	at := document.Content[0].Content[entry]
	if at.Kind == yaml.AliasNode {
		return at.Line
	}
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value == field {
			return at.Content[i].Line
		}
	}
	return at.Line
}

// plainError returns the decoder's first message on one line, without our type names.
func plainError(err error) string {
	text := strings.TrimPrefix(strings.TrimSpace(err.Error()), "yaml: ")
	text = strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))
	text, _, _ = strings.Cut(text, "\n")
	text = strings.ReplaceAll(text, " in type site.entry", "")
	return expected.ReplaceAllStringFunc(text, func(found string) string {
		parts := expected.FindStringSubmatch(found)
		what := map[string]string{"[]site.entry": "a list of entries", "site.entry": "an entry",
			"bool": "true or false", "string": "a text"}[parts[2]]
		return strings.TrimSuffix(fmt.Sprintf("expected %s, found %s", cmp.Or(what, parts[2]),
			cmp.Or(strings.Trim(parts[1], "` "), "something else")), " ")
	})
}

// expected matches how the decoder reports another type than it needs.
var expected = regexp.MustCompile("cannot unmarshal !!\\w+ (`[^`]*` )?into (\\S+)")

func (w entry) name() string { return words.Either(w.Address != "", w.ID+" at "+w.Address, w.ID) }

// ofHost reports whether an entry is about guests or libvirt as a whole, not about a knob.
func (w entry) ofHost() bool { return w.Guests != "" || len(w.Virsh) > 0 || w.Connect != "" }

func (w entry) libvirt() Libvirt { return Libvirt{Virsh: w.Virsh, Connect: w.Connect} }

// checkHost returns what is wrong with an entry about guests or libvirt; nil if nothing is.
func (w entry) checkHost() *mistake {
	field := "guests"
	switch {
	case len(w.Virsh) > 0:
		field = "virsh"
	case w.Connect != "":
		field = "connect"
	}
	switch err := w.libvirt().Check(); {
	case w.Guests != "" && w.Guests != "own":
		return &mistake{"guests", fmt.Sprintf("guests: expected own, found %q", w.Guests), "own: their " +
			"definitions are yours to change, whatever platform made them"}
	case w.ID != "" || w.Address != "" || w.Leave || !w.Want.IsZero():
		return &mistake{field, "an entry about " + field + " is about no knob", "give the knob an entry by itself"}
	case err != nil:
		return &mistake{field, err.Error(), "{virsh: [podman, exec, -i, libvirt, virsh], connect: 'qemu:///system'}"}
	}
	return nil
}

// Claim marks the definitions of libvirt's guests as the operator's if the file says so. Guests that libvirt does not
// know on the host have no definition there.
func (f *File) Claim(h *facts.Host) {
	if f == nil || !f.OwnGuests {
		return
	}
	for g := range facts.Each(h.Guests) {
		if g.Managed && g.Owner != nil {
			g.Owner.Own = true
		}
	}
}

// check returns the entry, or what is wrong with it.
func (w entry) check() (e Entry, wrong *mistake) {
	k := knob.Find(w.ID)
	var near []string
	if k == nil {
		near = lookup.Suggest(w.ID)
	}
	switch {
	case w.ID == "":
		return e, &mistake{"id", "it has no id", form}
	case k == nil && len(near) > 0:
		return e, &mistake{"id", fmt.Sprintf("unknown knob %q", w.ID), "did you mean " + strings.Join(near, " or ") +
			"?"}
	case k == nil:
		return e, &mistake{"id", fmt.Sprintf("unknown knob %q", w.ID), "'mpps explain --list' shows all of them"}
	case strings.TrimSpace(w.Reason) == "":
		return e, &mistake{"reason", w.name() + " has no reason", "say in a sentence why this site wants it " +
			"otherwise: whoever reads the audit sees it"}
	case w.Leave && !w.Want.IsZero():
		return e, &mistake{"want", w.name() + " has both want and leave", form}
	case !w.Leave && w.Want.IsZero():
		return e, &mistake{"id", w.name() + " has neither want nor leave", form}
	case !w.Leave && k.Check:
		return e, &mistake{"want", w.ID + " is checked and explained only: mpps does not set it",
			"leave: true takes it out of the audit"}
	}
	e = Entry{ID: w.ID, Leave: w.Leave, Reason: strings.TrimSpace(w.Reason)}
	if w.Address != "" {
		address, err := setting.ParseAddress(w.Address)
		if err != nil {
			return e, &mistake{"address", err.Error(), "addresses stand in 'mpps audit --json' and in plans"}
		}
		if !hasAddress(k, address) {
			return e, &mistake{"address", fmt.Sprintf("%s speaks of no address like %s", k.ID, w.Address),
				"it speaks of " + addresses(k)}
		}
		e.Address = address
	}
	if w.Leave {
		return e, nil
	}
	if w.Want.Kind != yaml.ScalarNode || w.Want.Tag == "!!null" {
		return e, &mistake{"want", w.name() + " wants something else than one value", "a text, a number, or on and off"}
	}
	value := w.Want.Value // as it is written
	e.Want = setting.Exact(value)
	if value == Absent {
		e.Want = setting.NotThere()
	}
	if n, err := strconv.ParseInt(value, 10, 64); k.Most > 0 && err == nil && (n < 1 || n > k.Most) {
		return e, &mistake{"want", fmt.Sprintf("%s wants %s: expected 1 to %d", w.name(), value, k.Most),
			"the kernel has no such bound, and takes a typing error for an order"}
	}
	if w.Address != "" {
		e.Want, wrong = canonicalWant(e.Want, e.Address)
		return e, wrong
	}
	// one match is enough: a knob's values may have several forms
	for _, a := range knob.ModelAddresses(k) {
		if _, wrong = canonicalWant(e.Want, a); wrong == nil {
			break
		}
	}
	return e, wrong
}

// canonicalWant returns a want in the canonical form of an address.
func canonicalWant(w setting.Want, a setting.Address) (setting.Want, *mistake) {
	want, err := w.Canonical(a)
	switch {
	case err != nil:
		return want, &mistake{"want", err.Error(), "the form of its values stands in 'mpps audit'"}
	case want.Op == setting.Gone && !setting.Kinds[a.Kind].CanAbsent:
		return want, &mistake{"want", fmt.Sprintf("%s cannot be absent", a), "name a value"}
	}
	return want, nil
}

// hasAddress reports whether a knob can have an address on some host: same kind and same last element
// (nic-ring:DEVICE/rx), unless that element is a number or a name of the host.
func hasAddress(k *knob.Knob, address setting.Address) bool {
	return slices.ContainsFunc(knob.ModelAddresses(k), func(a setting.Address) bool {
		mine, other := lastElement(a.Path), lastElement(address.Path)
		free := a.Kind == setting.Swap || a.Kind == setting.IRQCPUs || a.Kind == setting.Fact || isNumber(mine) &&
			isNumber(other)
		return a.Kind == address.Kind && (free || mine == other)
	})
}

func lastElement(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

func addresses(k *knob.Knob) string {
	all := facts.Map(k.Values(), func(v knob.Value) string { return v.Address })
	return strings.Join(all[:min(3, len(all))], ", ")
}

// Adjust overrides a knob's advice with the site's entry; it is an audit.Adjust. An entry with an address takes
// precedence over one for the whole knob, which leaves alone addresses that the knob does not apply to.
func (f *File) Adjust(id string, a setting.Address, advice knob.Advice) knob.Advice {
	if f == nil {
		return advice
	}
	var found *Entry
	for i := range f.Entries {
		e := &f.Entries[i]
		if e.ID == id && (e.Address == a || e.Address == (setting.Address{}) && found == nil) {
			found = e
		}
	}
	switch {
	case found == nil:
		return advice
	case found.Leave:
		left := knob.Skips("left alone by the site file: " + found.Reason)
		left.Site = found.Reason
		return left
	case advice.Skip != "" && found.Address == (setting.Address{}):
		return advice
	}
	want, wrong := canonicalWant(found.Want, a)
	if wrong != nil {
		return knob.Unsure("the site file wants what cannot be: " + wrong.problem)
	}
	wished := knob.Wants(want, "the site file wants it so")
	wished.Site, wished.Risk, wished.Needs = found.Reason, advice.Risk, advice.Needs
	if wished.Needs.IsZero() { // the knob accepts the value as it is
		wished.Needs = knob.Needs(a)
	}
	if same := advice.Want != nil && advice.Want.Target().Same(want.Target()); same || len(advice.Rules) == 0 {
		wished.Warning, wished.Rules = advice.Warning, advice.Rules // of the knob's value only
	}
	return wished
}

// Digest returns a hash of the file below a root; "" if there is none.
func Digest(root string) (string, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return "", &Error{Problem: err.Error(), Advice: "--root takes a directory"}
	}
	defer dir.Close()
	text, err := dir.ReadFile(Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", &Error{Problem: err.Error(), Advice: "it must be readable, or not there"}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16], nil
}
