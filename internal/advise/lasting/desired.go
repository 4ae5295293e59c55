package lasting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
)

// Schema is the version of the list of desired values.
const Schema = "mpps.desired/1"

// Value is one value that is put back after something has reset it.
type Value struct {
	ID      string          `json:"id"` // of the knob, for people
	Address setting.Address `json:"address"`
	Want    setting.Want    `json:"want"`
	To      setting.Reading `json:"to"` // what is written
	// the guest for which a virtual function was set; empty: whoever has it
	For string `json:"for,omitempty"`
}

type list struct {
	Schema string  `json:"schema"`
	About  string  `json:"about"`
	Values []Value `json:"values"`
}

// ParseDesired reads a list of desired values. Nothing in it is trusted: addresses and values must be of kinds that are
// put back, in their canonical form.
func ParseDesired(text string) ([]Value, error) {
	var l list
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("/%s: %w", DesiredFile, err)
	}
	if l.Schema != Schema {
		return nil, fmt.Errorf("/%s: expected schema %s, found %q", DesiredFile, Schema, l.Schema)
	}
	for _, v := range l.Values {
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("/%s: %s: %w", DesiredFile, v.Address, err)
		}
	}
	return l.Values, nil
}

func (v Value) check() error {
	if ways[v.Address.Kind] == byItself {
		return errors.New("values of this kind are not put back")
	}
	info := setting.Kinds[v.Address.Kind]
	switch v.To.State {
	case setting.Known:
		canonical, err := info.Canonical(v.To.Value)
		if err != nil {
			return err
		}
		if canonical != v.To.Value {
			return fmt.Errorf("value %q is not in its canonical form %q", v.To.Value, canonical)
		}
	case setting.Absent:
		if !info.CanAbsent {
			return fmt.Errorf("a %s cannot be removed", info.What)
		}
	default:
		return errors.New("no value to write")
	}
	if !v.Want.Met(v.To) {
		return fmt.Errorf("writing %s would not give what is wanted, %s", v.To, v.Want)
	}
	return nil
}

// render writes the list with a line for each value, so that it reads well in a diff.
func render(values []Value) (string, error) {
	var b bytes.Buffer
	head, err := json.Marshal(about)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "{\n \"schema\": %q,\n \"about\": %s,\n \"values\": [", Schema,
		bytes.ReplaceAll(head, []byte(`\u0026`), []byte("&")))
	for i, v := range values {
		line, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(line)
	}
	b.WriteString("\n ]\n}\n")
	if b.Len() > setting.MaxFile {
		return "", fmt.Errorf("the list of %d values to be put back is larger than %d bytes; apply with "+
			"--runtime-only, or in parts", len(values), setting.MaxFile)
	}
	return b.String(), nil
}

// desired plans the list of values that are put back, and the services that do it.
func (b *builder) desired() error {
	all := slices.DeleteFunc(b.changes(byRestore), func(c *plan.Change) bool { return b.kept[c.Address] })
	for _, c := range slices.Concat(b.changes(bySysctl), b.changes(byModule)) {
		if volatile(c.Address) {
			all = append(all, c)
		}
	}
	text, why := b.usable(desiredAddress)
	var values []Value
	if why == "" && text != "" {
		var err error
		if values, err = ParseDesired(text); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		for _, c := range all {
			c.Kept = strings.TrimPrefix(c.Kept+"; not put back: "+why, "; ")
		}
		return nil
	}
	before := len(values)
	values = b.unforgotten(values)
	dropped := before - len(values)
	if len(all) == 0 && dropped == 0 {
		switch {
		case b.gives():
			b.services(values)
		case text == "" && b.takesBack() && !b.given():
			b.without(unitAddress, fileAddress)
		}
		return nil
	}
	for _, c := range all {
		values = merge(values, *c)
		if c.Kept == "" {
			c.Lasts = setting.AcrossReboot
		}
		c.Kept = strings.TrimPrefix(c.Kept+"; "+b.keeper(c.Address), "; ")
	}
	if len(values) == 0 {
		b.nothingLeft()
		return nil
	}
	slices.SortStableFunc(values, func(x, y Value) int { return first(x.Address) - first(y.Address) })
	text, err := render(values)
	if err != nil {
		return err
	}
	because := fmt.Sprintf("%s would be lost with a reboot, an ifup, a driver's reload or a guest's start",
		count(len(all), "value"))
	if len(all) == 0 {
		because = fmt.Sprintf("%s are not put back any more", count(dropped, "value"))
	}
	b.add("desired", "Values to be put back", because, desiredAddress, setting.Exact(text))
	b.services(values)
	return nil
}

// first puts values in order that reset others: functions come without attributes, channels renumber queues and
// interrupts, rings ask for interrupts again.
func first(a setting.Address) int {
	if OfVFs(a) {
		switch a.Kind {
		case setting.Sysfs:
			return -10
		case setting.NICState:
			return -9
		case setting.VFCount:
			return -8
		}
		return -7
	}
	switch a.Kind {
	case setting.Service:
		return -4
	case setting.NICChannels:
		return -3
	case setting.NICRing:
		return -2
	case setting.NICFeature:
		return -1
	}
	return 0
}

func merge(values []Value, c plan.Change) []Value {
	added := Value{ID: c.ID, Address: c.Address, Want: c.Want,
		To: setting.Reading{State: c.To.State, Value: c.To.Value}, For: c.For}
	at := slices.IndexFunc(values, func(v Value) bool { return v.Address == c.Address })
	if at >= 0 {
		values[at] = added
		return values
	}
	return append(values, added)
}
