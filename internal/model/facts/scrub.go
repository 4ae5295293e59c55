package facts

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mpps/internal/model/setting"
)

// Scrub returns a copy of a host without what identifies its owner: MAC addresses, UUIDs and serials, IP addresses, the
// names of the host and its guests, and free text in guest definitions. A value gets the same replacement wherever it
// occurs (also in definitions, addresses, rules and reasons), so that a scrubbed snapshot audits like the original.
// Names of interfaces, bridges and drivers stay: they are part of the configuration.
func Scrub(h *Host) *Host { return newScrubber(h).host(h, "host") }

// host returns the scrubbed copy of a host, or of a guest's inside, under a new name.
func (s *scrubber) host(h *Host, name string) *Host {
	text, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("a host is always JSON: %v", err))
	}
	var c Host
	if err := json.Unmarshal([]byte(s.text(string(text))), &c); err != nil {
		panic(fmt.Sprintf("scrubbing replaces words by words: %v", err))
	}
	if h.Name != "" {
		c.Name = name
	}
	c.Kernel.Release, c.Kernel.Version = h.Kernel.Release, h.Kernel.Version // four numbers are no address here
	c.Kernel.CommandLine = s.replaceNames(c.Kernel.CommandLine, h)
	for i := range c.NICs {
		c.NICs[i].Firmware, c.NICs[i].SwitchID = h.NICs[i].Firmware, s.switches.of(h.NICs[i].SwitchID)
	}
	if o := c.OpenVSwitch; o != nil && o.OVN != nil && o.OVN.Chassis != "" {
		o.OVN.Chassis = "chassis" // often the host's name
	}
	for i := range c.Guests {
		g := &h.Guests[i]
		c.Guests[i].Name = s.names.of(g.Name)
		for _, list := range [][]Interface{c.Guests[i].Interfaces, c.Guests[i].Plugged} {
			for k := range list {
				if strings.HasPrefix(list[k].Source, "/") { // a socket, whose name may be made of the guest's
					list[k].Source = s.replaceNames(list[k].Source, h)
				}
			}
		}
		c.Guests[i].Definition = s.definition(*g)
		if owner := c.Guests[i].Owner; owner != nil {
			owner.ID = s.ownerID(*g.Owner)
		}
		if in := c.Guests[i].Inside; in != nil {
			in.Release, in.Version, in.OS = g.Inside.Release, g.Inside.Version, g.Inside.OS
			if g.Inside.Host != nil {
				in.Host = s.host(g.Inside.Host, c.Guests[i].Name)
				in.Host.Root = "guest " + c.Guests[i].Name
			}
		}
	}
	for id, a := range c.Attested {
		a.By = s.people.of(a.By)
		c.Attested[id] = a
	}
	s.references(&c, h)
	s.lasting(&c)
	s.isolation(&c, h)
	s.load(c.Load, h.Load)
	c.Readings = make(Readings, len(h.Readings))
	for a, r := range h.Readings {
		r.Value, r.Why = s.text(r.Value), s.replaceNames(s.text(r.Why), h)
		r.Verbatim = s.replaceNames(s.text(r.Verbatim), h)
		// the list of values to restore names guests, and so may an interface
		if a.Kind == setting.File || r.Verbatim != "" {
			r.Value = s.replaceNames(r.Value, h)
		}
		c.Readings[s.address(a)] = r
	}
	return &c
}

// scrubber replaces values consistently.
type scrubber struct {
	macs, uuids, addresses, names, people, switches *replacements
}

// replacements maps values to replacements, numbered in order of first appearance.
type replacements struct {
	make  func(n int, original string) string
	known map[string]string
}

func (r *replacements) of(original string) string {
	if original == "" {
		return ""
	}
	if known, found := r.known[original]; found {
		return known
	}
	made := r.make(len(r.known)+1, original)
	r.known[original] = made
	return made
}

func newScrubber(h *Host) *scrubber {
	table := func(make func(int, string) string) *replacements { return &replacements{make, map[string]string{}} }
	s := &scrubber{
		macs:  table(newMAC),
		uuids: table(func(n int, _ string) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }),
		addresses: table(func(n int, original string) string {
			if strings.Contains(original, ":") {
				return fmt.Sprintf("2001:db8::%x", n) // RFC 3849
			}
			return fmt.Sprintf("192.0.2.%d", 1+(n-1)%254) // RFC 5737
		}),
		names:  table(nil),
		people: table(func(n int, _ string) string { return fmt.Sprintf("person%d", n) }),
		// made of a MAC address (mlx5_query_nic_vport_system_image_guid) or of the card's serial number
		switches: table(func(n int, _ string) string { return fmt.Sprintf("%016x", n) }),
	}
	guests := 0
	s.names.make = func(int, string) string { guests++; return fmt.Sprintf("guest%d", guests) }
	if h.Name != "" {
		s.names.known[h.Name] = "host"
	}
	for _, g := range h.Guests {
		s.names.of(g.Name)
	}
	return s
}

// ownerID replaces a platform's name of a guest. A number says nothing of whose guest it is.
func (s *scrubber) ownerID(o Owner) string {
	switch {
	case isNumber(o.ID):
		return o.ID
	case strings.Contains(o.ID, "/"): // namespace and name
		return "namespace/" + s.names.of(o.ID)
	}
	return s.text(o.ID)
}

// newMAC keeps libvirt's prefixes; other addresses become local unicast ones.
func newMAC(n int, original string) string {
	prefix := "02:00:00"
	if strings.HasPrefix(original, "52:54:00") {
		prefix = "52:54:00"
	} else if strings.HasPrefix(original, "fe:54:00") {
		prefix = "fe:54:00"
	}
	return fmt.Sprintf("%s:%02x:%02x:%02x", prefix, n>>16&255, n>>8&255, n&255)
}

var (
	macWord     = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b`)
	machineWord = regexp.MustCompile(`\b[0-9a-f]{32}\b`) // machine-id, in the names of boot entries
	uuidWord    = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	ipWord      = regexp.MustCompile(
		`(?i)\b(?:\d{1,3}\.){3}\d{1,3}\b|(?:\b[0-9a-f]{1,4})?(?::{1,2}[0-9a-f]{1,4}){2,7}(?:::)?\b`)
	// personal matches the elements of a definition that hold free text or serial numbers.
	personal = regexp.MustCompile(`(?s)<(title|description|serial|entry|wwn|metadata)((?:\s[^>]*)?)>.*?</(title|description|serial|entry|wwn|metadata)>`)
)

// text replaces everything that is recognizable by its form.
func (s *scrubber) text(text string) string {
	text = uuidWord.ReplaceAllStringFunc(text, func(word string) string { return s.uuids.of(strings.ToLower(word)) })
	text = machineWord.ReplaceAllStringFunc(text,
		func(word string) string { return strings.ReplaceAll(s.uuids.of(word), "-", "") })
	text = macWord.ReplaceAllStringFunc(text, func(word string) string { return s.mac(strings.ToLower(word)) })
	return ipWord.ReplaceAllStringFunc(text, s.ip)
}

// mac replaces a MAC address. The tap of a guest's NIC has the NIC's address with prefix fe (libvirt,
// virNetDevTapCreateInBridgePort); the replacement keeps that relation.
func (s *scrubber) mac(word string) string {
	if word == "00:00:00:00:00:00" || word == "ff:ff:ff:ff:ff:ff" {
		return word
	}
	if rest, found := strings.CutPrefix(word, "fe:"); found {
		if made, known := s.macs.known["52:"+rest]; known {
			return "fe:" + made[3:]
		}
	}
	return s.macs.of(word)
}

// ip replaces an address, except loopback, unspecified and multicast ones.
func (s *scrubber) ip(word string) string {
	address, err := netip.ParseAddr(word)
	if err != nil || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() {
		return word
	}
	return s.addresses.of(word)
}

// definition returns a guest's definition without its name, free text and serials.
func (s *scrubber) definition(g Guest) string {
	if g.Definition == "" {
		return ""
	}
	text := s.text(g.Definition)
	text = personal.ReplaceAllString(text, "")
	return replaceWord(text, g.Name, s.names.of(g.Name))
}

// replaceWord replaces a name where it is not part of a longer word.
func replaceWord(text, name, by string) string {
	part := func(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	var b strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			return b.String() + text
		}
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(name):])
		b.WriteString(text[:at])
		if at > 0 && part(before) || at+len(name) < len(text) && part(after) {
			b.WriteString(name)
		} else {
			b.WriteString(by)
		}
		text = text[at+len(name):]
	}
}

// references replaces guest names in other parts of the host.
func (s *scrubber) references(c, h *Host) {
	rename(s, c.Taps, h.Taps, func(t *Tap) *string { return &t.Guest })
	rename(s, c.VFs, h.VFs, func(v *VF) *string { return &v.Guest })
	rename(s, c.Reservations, h.Reservations, func(r *Reservation) *string { return &r.Guest })
	rename(s, c.Leaving, h.Leaving, func(l *Reservation) *string { return &l.Guest })
	if c.Passthrough != nil {
		rename(s, c.Passthrough.Locked, h.Passthrough.Locked, func(l *LockLimit) *string { return &l.Guest })
	}
	rename(s, c.Unverified, h.Unverified, func(u *Unverified) *string { return &u.Guest })
	for u := range Each(c.Unseen) {
		u.What, u.Why, u.Of = s.replaceNames(u.What, h), s.replaceNames(u.Why, h), s.replaceNames(u.Of, h)
	}
}

// rename replaces the name of a guest in each element of a list. was is the list before the scrubbing of its words.
func rename[T any](s *scrubber, list, was []T, guest func(*T) *string) {
	for i := range list {
		*guest(&list[i]) = s.names.of(*guest(&was[i]))
	}
}

// replaceNames replaces the names of guests and host in a text for people.
func (s *scrubber) replaceNames(text string, h *Host) string {
	names := []string{h.Name}
	for _, g := range h.Guests {
		names = append(names, g.Name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		if name != "" && strings.Contains(text, name) {
			text = replaceWord(text, name, s.names.of(name))
		}
	}
	return text
}

// address replaces an address's guest, if its kind has one, and everything that is recognizable by its form.
func (s *scrubber) address(a setting.Address) setting.Address {
	switch guest, rest := a.Guest(), a.Rest(); {
	case guest != "" && rest != "":
		return setting.Of(a.Kind, s.names.of(guest), s.text(rest))
	case guest != "":
		return setting.Of(a.Kind, s.names.of(guest))
	}
	return setting.Address{Kind: a.Kind, Path: s.text(a.Path)}
}

// lasting replaces the program's path and the names of connection profiles: people name those after places.
func (s *scrubber) lasting(c *Host) {
	if c.Lasting == nil {
		return
	}
	l := *c.Lasting
	if l.Program != "" {
		l.Program = "/usr/bin/mpps"
	}
	l.NetworkManager = slices.Clone(l.NetworkManager)
	profiles := map[string]string{}
	for i := range l.NetworkManager {
		file := &l.NetworkManager[i].File
		if profiles[*file] == "" {
			profiles[*file] = path.Join(path.Dir(*file), fmt.Sprintf("profile%d", len(profiles)+1))
		}
		*file = profiles[*file]
	}
	c.Lasting = &l
}
