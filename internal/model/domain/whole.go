package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Whole elements as values: an <interface> or a <hostdev> that is present or absent. The document holds more of such an
// element than its value says: its address in the guest, white space, the order of its parts. Verbatim returns all of
// it, and RestoreVerbatim puts it back.

// ignored reports whether the value of a whole element leaves out this part: the address in the guest and, in the XML
// of a running guest, what libvirt added for the run.
func (d *Doc) ignored(e *element) bool {
	owner := e.parent
	if d.live && e.name == "origstates" { // status files: what to undo on the host when the function comes back
		return true
	}
	if owner == nil || owner.name != "interface" && owner.name != "hostdev" {
		return false
	}
	if e.name == "address" {
		return true
	}
	if !d.live {
		return false
	}
	switch e.name {
	case "alias":
		return !isUserAlias(e.get("name"))
	case "driver":
		return owner.get("type") == "hostdev" || owner.name == "hostdev"
	case "target": // names that libvirt makes (src/util/virnetdev.c, virNetDevGenerateName)
		dev := e.get("dev")
		return strings.HasPrefix(dev, "vnet") || strings.HasPrefix(dev, "macvtap") || strings.HasPrefix(dev, "macvlan")
	case "actual", "backend":
		return true
	}
	return false
}

// runtimeAttr reports whether libvirt adds this attribute to the <source> of an interface of type network while the
// guest runs.
func (d *Doc) runtimeAttr(e *element, name string) bool {
	return d.live && e.name == "source" && e.parent != nil && e.parent.get("type") == "network" &&
		name != "network" && name != "portgroup"
}

// meaning returns a text that is equal for elements that libvirt reads alike: no white space or comments, attributes
// and children sorted.
func (d *Doc) meaning(e *element, ignored func(*element) bool) string {
	var attrs, kids []string
	pci := e.name == "address" && e.get("type") == "pci"
	for _, a := range e.attrs {
		value := strings.TrimSpace(decode(a.raw))
		inPCI := pci && slices.Contains([]string{"domain", "bus", "slot", "function"}, a.name)
		if a.gone || d.runtimeAttr(e, a.name) || a.name == "managed" && value == "no" || inPCI {
			continue
		}
		attrs = append(attrs, a.name+"="+strconv.Quote(value))
	}
	if pci {
		attrs = append(attrs, "pci="+pciOf(e))
	}
	slices.Sort(attrs)
	for _, kid := range e.elements() {
		if !ignored(kid) {
			kids = append(kids, d.meaning(kid, ignored))
		}
	}
	slices.Sort(kids)
	return "<" + e.name + " " + strings.Join(attrs, " ") + ">" + strconv.Quote(e.text()) + strings.Join(kids, "") +
		"</>"
}

// oneLine returns an element as XML on one line.
func (d *Doc) oneLine(e *element, ignored func(*element) bool) string {
	var b strings.Builder
	d.writeLine(&b, e, ignored)
	return b.String()
}

func (d *Doc) writeLine(b *strings.Builder, e *element, ignored func(*element) bool) {
	b.WriteString("<" + e.name)
	for _, a := range e.attrs {
		if !a.gone && !d.runtimeAttr(e, a.name) {
			b.WriteString(" " + a.name + "='" + escapeSpace(escape(decode(a.raw), '\'')) + "'")
		}
	}
	text := e.text()
	kids := slices.DeleteFunc(e.elements(), ignored)
	if text == "" && len(kids) == 0 {
		b.WriteString("/>")
		return
	}
	b.WriteString(">" + escapeSpace(escape(text, '\'')))
	for _, kid := range kids {
		d.writeLine(b, kid, ignored)
	}
	b.WriteString("</" + e.name + ">")
}

// escapeSpace writes white space as references if splitting and joining words would change it.
func escapeSpace(text string) string {
	var b strings.Builder
	last := rune(' ')
	for i, r := range text {
		if unicode.IsSpace(r) && (r != ' ' || last == ' ' || i+1 == len(text)) {
			fmt.Fprintf(&b, "&#%d;", r)
			last = 'x'
			continue
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// fragment parses one element.
func fragment(text string) (*element, error) {
	s := &scanner{src: text}
	if !strings.HasPrefix(text, "<") || len(text) > MaxBytes || strings.HasPrefix(text, "<?") ||
		strings.HasPrefix(text, "<!") {
		return nil, s.fail(0, "found no element, expected one")
	}
	if err := s.checkCharacters(); err != nil {
		return nil, err
	}
	e, err := s.tree()
	if err != nil {
		return nil, err
	}
	if s.pos != len(text) {
		return nil, s.fail(s.pos, "something follows the end of <%s>", clip(e.name))
	}
	return e, nil
}

// isWhole reports whether the value is a whole element of which there can be several.
func (r *rule) isWhole() bool {
	last := r.last().key
	return r.attr == "" && (last == byWholeNIC || last == byPCI)
}

// Verbatim returns what RestoreVerbatim needs to bring a whole element back byte for byte: its index among elements of
// its name, and its text. It is empty for an absent element and for paths whose value says everything.
func (d *Doc) Verbatim(path string) string {
	p, err := d.find(path)
	if err != nil || !p.rule.isWhole() || !d.present(p) {
		return ""
	}
	e, text := p.leaf(), d.Element(path)
	if !utf8.ValidString(text) {
		return ""
	}
	if d.live {
		text = d.withoutRuntime(text)
	}
	return strconv.Itoa(slices.Index(e.parent.all(e.name), e)) + " " + text
}

// Element returns the text of a whole element, empty if it is absent.
func (d *Doc) Element(path string) string {
	p, err := d.find(path)
	if err != nil || !p.rule.isWhole() || p.leaf() == nil {
		return ""
	}
	var b strings.Builder
	p.leaf().write(&b)
	return strings.TrimPrefix(b.String(), p.leaf().lead)
}

// withoutRuntime removes from an element what libvirt added for the run, except its address in the guest.
func (d *Doc) withoutRuntime(text string) string {
	top, err := fragment(text)
	if err != nil {
		return text
	}
	var clean func(e *element)
	clean = func(e *element) {
		for _, a := range e.attrs {
			a.gone = a.gone || d.runtimeAttr(e, a.name)
		}
		for _, kid := range e.elements() {
			if kid.gone = d.ignored(kid) && kid.name != "address"; !kid.gone {
				clean(kid)
			}
		}
	}
	clean(top)
	var b strings.Builder
	top.write(&b)
	return b.String()
}

// RestoreVerbatim puts back a whole element that is absent or different now, from the results of Get and Verbatim. It
// accepts what Restore accepts. If verbatim does not have the value, it puts back the value alone.
func (d *Doc) RestoreVerbatim(path, value, verbatim string) error {
	p, v, err := d.check(path, value, true)
	if err != nil {
		return err
	}
	number, text, _ := strings.Cut(verbatim, " ")
	at, numbered := atoi(number)
	if !p.rule.isWhole() || !numbered {
		return d.Restore(path, value, true)
	}
	e, err := fragment(text)
	if err != nil || e.name != p.rule.last().name {
		return d.Restore(path, value, true)
	}
	parent := d.makeParents(p)
	e.parent = parent
	found, ok := p.rule.value.canon(p.rule.form.get(d, e))
	if !ok || found != v || !p.rule.last().matches(e, p.key) {
		return d.Restore(path, value, true)
	}
	defer d.dropTables()
	spot := -1
	if now := p.leaf(); now != nil {
		if d.Verbatim(path) == verbatim {
			return nil
		}
		spot = parent.index(now)
		d.remove(now)
	}
	var bytes strings.Builder
	for _, n := range parent.kids {
		if n.el == nil || !n.el.gone || n.el.name != e.name {
			continue
		}
		bytes.Reset()
		n.el.write(&bytes)
		if strings.TrimPrefix(bytes.String(), n.el.lead) == text {
			d.bringBack(n.el)
			return nil
		}
	}
	if spot < 0 {
		spot = d.indexFor(parent, e.name, at)
	}
	d.insertAt(parent, e, spot)
	return nil
}

func (r *rule) last() *step { return &r.steps[len(r.steps)-1] }

// matches reports whether a key selects an element.
func (s *step) matches(e *element, key string) bool {
	if s.key == byWholeNIC {
		mac, half, _ := strings.Cut(key, "@")
		found, _ := CanonMAC(e.first("mac").get("address"))
		return found == mac && (half == "" || half == e.first("teaming").get("type"))
	}
	return s.keyOf(e) == key
}

// makeParents returns the parent of a whole element and adds it if it is missing.
func (d *Doc) makeParents(p *place) *element {
	at := d.root
	for i := range p.rule.steps[:len(p.rule.steps)-1] {
		if i < len(p.chain) {
			at = p.chain[i]
		} else {
			at = d.make(at, &p.rule.steps[i], p.key)
		}
	}
	return at
}

// index returns the index of a child among the nodes of an element.
func (e *element) index(kid *element) int {
	return slices.IndexFunc(e.kids, func(n node) bool { return n.el == kid })
}

// indexFor returns the index for an element that is to be number n among those of its name.
func (d *Doc) indexFor(parent *element, name string, n int) int {
	switch like := parent.all(name); {
	case n < len(like) && n == 0:
		return parent.index(like[0])
	case n < len(like):
		return parent.after(parent.index(like[n-1]))
	}
	return d.place(parent, name, "", "")
}

// insertAt inserts an element among the nodes of another.
func (d *Doc) insertAt(parent, e *element, spot int) {
	d.changes++
	e.made, e.parent, e.lead = true, parent, d.leadAt(parent, spot)
	parent.kids = slices.Insert(parent.kids, spot, node{kind: elementNode, el: e})
}

// putWhole sets a whole interface: no change if it has the value, else an interface removed earlier that has it, else a
// new element in place of the present one or after the last interface.
func (d *Doc) putWhole(p *place, v string) {
	parent, now, last := d.makeParents(p), p.leaf(), p.rule.last()
	same := func(e *element) bool {
		found, ok := p.rule.value.canon(p.rule.form.get(d, e))
		return ok && found == v
	}
	if now != nil && same(now) {
		return
	}
	defer d.dropTables()
	spot := d.place(parent, last.name, "", "")
	if now != nil {
		spot = parent.index(now)
		d.remove(now)
	}
	for _, n := range parent.kids {
		if e := n.el; e != nil && e.gone && e.name == last.name && last.matches(e, p.key) && same(e) {
			d.bringBack(e)
			return
		}
	}
	if e, err := fragment(v); err == nil {
		d.insertAt(parent, e, spot)
		return
	}
	e := &element{name: last.name, selfClosed: true, bare: true}
	d.insertAt(parent, e, spot)
	mac, _, _ := strings.Cut(p.key, "@")
	d.fillNIC(e, mac, v)
}

// wholeNIC returns the interface that the key of a whole one selects.
func (d *Doc) wholeNIC(p *place) (*element, error) {
	found := slices.DeleteFunc(slices.Clone(d.interfaces().all), func(e *element) bool {
		return !p.rule.last().matches(e, p.key) || e.parent != p.chain[0]
	})
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	err := &PathError{Path: p.path, Problem: fmt.Sprintf("%d interfaces have this MAC address", len(found))}
	if !strings.Contains(p.key, "@") {
		err.Advice = "the halves of a failover pair are named with @persistent and @transient behind the address"
	}
	return nil, err
}

// checkNIC refuses an interface that conflicts with the rest of the document.
func (d *Doc) checkNIC(p *place, v string) error {
	bad := func(problem, advice string) error { return &PathError{Path: p.path, Problem: problem, Advice: advice} }
	mac, half, _ := strings.Cut(p.key, "@")
	if wrong := nicMAC.valid(mac); wrong != nil {
		wrong.Path, wrong.Found = p.path, mac
		return wrong
	}
	teaming, other, _ := strings.Cut(wordOf(v, "teaming"), ":")
	if teaming != half {
		named := "interface/" + strings.TrimSuffix(mac+"@"+teaming, "@")
		return bad(fmt.Sprintf("found %q, expected the path %s", clip(v), named), "the halves of a failover pair "+
			"have one MAC address")
	}
	now, named := p.leaf(), false
	for _, e := range d.interfaces().all {
		if e == now {
			continue
		}
		its := e.first("teaming").get("type")
		alias := e.first("alias").get("name")
		address, _ := CanonMAC(e.first("mac").get("address"))
		switch {
		case address == mac && (half == "" || its == "" || its == half):
			return bad("another interface has this MAC address", "two interfaces have one address only as the halves "+
				"of a failover pair")
		case alias != "" && alias == wordOf(v, "alias"):
			return bad("another interface is named "+clip(alias), "")
		case its == "persistent" && alias != "" && alias == other:
			named = true
		}
	}
	if half == "transient" && !named {
		return bad(fmt.Sprintf("found no interface with teaming=persistent and alias=%s", clip(other)),
			"make the interface that stays first")
	}
	if pci := wordOf(v, "pci"); pci != "" {
		if at := d.passthroughOf(pci); at != nil && at != now {
			return bad(pci+" stands in this definition already", "a function is given to a guest once")
		}
	}
	return nil
}

// passthroughOf returns the element that passes a host function through, nil if there is none.
func (d *Doc) passthroughOf(pci string) *element {
	for _, devices := range d.root.all("devices") {
		for _, e := range devices.elements() {
			a := e.first("source", "address")
			if a == nil || e.name != "hostdev" && (e.name != "interface" || e.get("type") != "hostdev") {
				continue
			}
			if key, _ := CanonPCI(pciOf(a)); key == pci {
				return e
			}
		}
	}
	return nil
}

// wordOf returns the value of one word of a whole interface, empty if it is absent.
func wordOf(v, key string) string {
	for word := range strings.FieldsSeq(v) {
		if value, found := strings.CutPrefix(word, key+"="); found {
			return value
		}
	}
	return ""
}

// Within reports whether a path is whole, or a part of the whole element that it names.
func Within(path, whole string) bool {
	return path == whole || IsDevice(whole) && strings.HasPrefix(path, whole+"/")
}

// IsDevice reports whether a path names a whole element that can be hot-plugged: interface/MAC or hostdev/PCI.
func IsDevice(path string) bool {
	r, _ := match(path)
	return r != nil && r.isWhole()
}

// Device returns the XML of a device to plug into a guest: the text of verbatim if it has the value, else an element
// made from the value. It refuses what Set refuses, except for a device that was there before (verbatim).
func (d *Doc) Device(path, value, verbatim string) (string, error) {
	if !IsDevice(path) {
		return "", &PathError{Path: clip(path), Problem: "is not a device",
			Advice: "such as interface/52:54:00:00:00:01 or hostdev/0000:01:10.0"}
	}
	copied, err := d.Clone()
	if err != nil {
		return "", err
	}
	copied.live = d.live
	if err := copied.Restore(path, "", false); err != nil {
		return "", err
	}
	if verbatim != "" {
		err = copied.RestoreVerbatim(path, value, verbatim)
	} else {
		err = copied.Set(path, value)
	}
	if err != nil {
		return "", err
	}
	_, text, _ := strings.Cut(copied.Verbatim(path), " ")
	return text, nil
}
