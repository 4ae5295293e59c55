package lasting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
	"mpps/internal/strictjson"
)

// Schema is the version of the list of desired values.
const Schema = "mpps.desired/1"

// Value is one value to restore after something has reset it.
type Value struct {
	ID      string          `json:"id"` // of the knob, for people
	Address setting.Address `json:"address"`
	Want    setting.Want    `json:"want"`
	To      setting.Reading `json:"to"` // what is written
	// the guest that a VF was set for; empty: whichever has it
	For string `json:"for,omitempty"`
}

type list struct {
	Schema string  `json:"schema"`
	About  string  `json:"about"`
	Values []Value `json:"values"`
}

// ParseDesired reads a list of desired values. Nothing in it is trusted: addresses and values must be canonical and of
// kinds that are restored.
func ParseDesired(text string) ([]Value, error) {
	var l list
	if err := strictjson.Unmarshal([]byte(text), &l); err != nil {
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

// render returns the text of the list, with a line for each value so that it diffs well.
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

// addDesired plans the list of desired values and the services that restore them.
func (b *builder) addDesired() error {
	all := slices.DeleteFunc(b.changes(byRestore), func(c *plan.Change) bool { return b.kept[c.Address] })
	for _, c := range slices.Concat(b.changes(bySysctl), b.changes(byModule)) {
		if volatile(c.Address) {
			all = append(all, c)
		}
	}
	text, why := b.writableText(desiredAddress)
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
	values = b.dropForgotten(values)
	dropped := before - len(values)
	if len(all) == 0 && dropped == 0 {
		switch {
		case b.reserves(setting.Known):
			b.addServices(values)
		case text == "" && b.reserves(setting.Absent) && !b.hasReservations():
			b.removeService(unitAddress, unitFile)
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
		b.removeList()
		return nil
	}
	slices.SortStableFunc(values, func(x, y Value) int { return restoreRank(x.Address) - restoreRank(y.Address) })
	text, err := render(values)
	if err != nil {
		return err
	}
	because := fmt.Sprintf("%s would be lost with a reboot, an ifup, a driver's reload or a guest's start",
		knob.Count(len(all), "value"))
	if len(all) == 0 {
		because = fmt.Sprintf("%s are not put back any more", knob.Count(dropped, "value"))
	}
	b.add("desired", "Values to be put back", because, desiredAddress, setting.Exact(text))
	b.addServices(values)
	return nil
}

// restoreRank orders values that reset others: VFs come without attributes, channels renumber queues and interrupts,
// rings request interrupts again. Lower ranks come first.
func restoreRank(a setting.Address) int {
	ranks := map[setting.Kind]int{
		setting.Service: -4, setting.NICChannels: -3, setting.NICRing: -2, setting.NICFeature: -1, setting.NICFlag: -1,
	}
	if OfVFs(a) {
		ranks = map[setting.Kind]int{
			setting.Sysfs: -10, setting.NICState: -9, setting.VFCount: -8, setting.VFAttr: -7,
		}
	}
	return ranks[a.Kind]
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
