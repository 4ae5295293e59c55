package domain

import (
	"fmt"
	"slices"
	"strings"
)

// A whole <interface> as one value: "hostdev pci=0000:01:10.0 managed=yes vlan=5", "network=pool model=virtio",
// "bridge=br0 model=virtio teaming=persistent alias=ua-backup0". The words are everything that the element holds but
// for its MAC address, which is the path's key, and the place (<address>) that libvirt gives it in the guest, which
// nobody asks for. An element that holds more than there are words for is its XML on one line; such a value is read and
// put back, never set.

// nicWord is one word of such a value.
type nicWord struct {
	key   string
	types string   // the types of interface that can have it
	at    []string // elements from <interface> down
	attr  string
	value kind
}

// nicWords is every word behind the first, in the order in which they are written.
var nicWords = []nicWord{
	{"pci", "hostdev", []string{"source", "address"}, "", pciAddress},
	{"managed", "hostdev", nil, "managed", yesNo},
	{"model", "network bridge", []string{"model"}, "type", kind{canon: canonWord, allowed: nicModel.allowed,
		wanted: nicModel.wanted}},
	{"driver", "hostdev network bridge", []string{"driver"}, "name", kind{canon: canonWord, allowed: nicDriver.allowed,
		wanted: nicDriver.wanted}},
	{"queues", "network bridge", []string{"driver"}, "queues", kind{canon: canonInt, allowed: nicQueues.allowed,
		wanted: nicQueues.wanted}},
	{"rx_queue_size", "network bridge", []string{"driver"}, "rx_queue_size",
		kind{canon: canonInt, allowed: queueSize(false).allowed, wanted: queueSize(false).wanted}},
	{"tx_queue_size", "network bridge", []string{"driver"}, "tx_queue_size",
		wordKind("only vhost-user and vDPA have more", "256")},
	{"vlan", "hostdev network bridge", []string{"vlan", "tag"}, "id", kind{canon: canonInt, allowed: vlanTag.allowed,
		wanted: vlanTag.wanted}},
	{"mtu", "network bridge", []string{"mtu"}, "size", kind{canon: canonInt, allowed: mtuBytes.allowed,
		wanted: mtuBytes.wanted}},
	{"teaming", "hostdev network bridge", []string{"teaming"}, "", teamingKind},
	{"link", "hostdev network bridge", []string{"link"}, "state", wordKind("", "up", "down")},
	{"boot", "hostdev network bridge", []string{"boot"}, "order", intKind(1, 1<<20, "")},
	{"alias", "hostdev network bridge", []string{"alias"}, "name", aliasKind},
}

// aliasKind is a name that the user has given. libvirt keeps one only with this prefix (src/conf/domain_conf.c,
// USER_ALIAS_CHARS and virDomainDeviceAliasIsUserAlias).
var aliasKind = kind{allowed: "ua- and letters, digits, - and _", canon: canonWord, wanted: func(v string) *ValueError {
	const others = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if !isUserAlias(v) || strings.Trim(v, others) != "" {
		return refuse("ua- and letters, digits, - and _", "libvirt names a device itself where the name does not "+
			"begin with ua-")
	}
	return nil
}}

func isUserAlias(name string) bool { return strings.HasPrefix(name, "ua-") && len(name) > len("ua-") }

// teamingKind is which half of a failover pair an interface is: "persistent", the virtio interface that stays, or
// "transient:ALIAS", the faster one that may go, with the name of the other.
var teamingKind = kind{allowed: "persistent or transient:ALIAS", canon: canonWord, wanted: func(v string) *ValueError {
	if alias, transient := strings.CutPrefix(v, "transient:"); transient {
		return aliasKind.wanted(alias)
	}
	if v != "persistent" {
		return refuse("persistent or transient:ALIAS", "ALIAS is the name (<alias>) of the interface that stays")
	}
	return nil
}}

// nicSource is the first word of a type that is named with what it leads to.
var nicSource = map[string]string{"network": "network", "bridge": "bridge"}

// nicForm is a whole <interface>.
type nicForm struct{}

// get gives the words, or the XML on one line.
func (nicForm) get(d *Doc, e *element) string {
	v, ok := d.nicInWords(e)
	if ok {
		// What the words do not say is found by making an element of them.
		scratch := &Doc{nl: "\n", unit: "  ", root: &element{name: "domain"}}
		made := scratch.insert(scratch.insert(scratch.root, "devices", "", ""), "interface", "", "")
		scratch.fillNIC(made, e.first("mac").get(d, "address"), v)
		if d.meaning(e, d.passed) == scratch.meaning(made, scratch.passed) {
			return v
		}
	}
	return d.oneLine(e, d.passed)
}

// put fills an element that Set has made.
func (nicForm) put(*Doc, *element, string) {} // a whole element is put by put of package whole.go

// nicInWords gives what the words can say of an interface. ok is false where its type has none.
func (d *Doc) nicInWords(e *element) (v string, ok bool) {
	typ := e.get(d, "type")
	first := typ
	if attr := nicSource[typ]; attr != "" {
		name := e.first("source").get(d, attr)
		if name == "" {
			return "", false
		}
		first = typ + "=" + escapeWord(name)
	} else if typ != "hostdev" {
		return "", false
	}
	words := []string{first}
	for i := range nicWords {
		w := &nicWords[i]
		if !w.of(typ) {
			continue
		}
		raw, there := d.nicWord(e, w)
		if !there {
			continue
		}
		value, good := w.value.canon(raw)
		if !good || strings.ContainsAny(value, " \t\n") {
			return "", false
		}
		words = append(words, w.key+"="+value)
	}
	return strings.Join(words, " "), true
}

func (w *nicWord) of(typ string) bool { return slices.Contains(strings.Fields(w.types), typ) }

// nicWord reads one word of an interface.
func (d *Doc) nicWord(e *element, w *nicWord) (raw string, there bool) {
	at := e.first(w.at...)
	if at == nil {
		return "", false
	}
	switch w.key {
	case "pci":
		return pciForm{}.get(d, at), true
	case "managed":
		return managedForm{}.get(d, e), true
	case "teaming":
		if at.get(d, "type") == "transient" {
			return "transient:" + at.get(d, "persistent"), true
		}
		return at.get(d, "type"), true
	}
	if at != e && d.passed(at) || at.attr(w.attr) == nil {
		return "", false
	}
	return at.get(d, w.attr), true
}

// fillNIC makes what the words of a canonical value say in an empty <interface>.
func (d *Doc) fillNIC(e *element, mac, v string) {
	words := strings.Fields(v)
	typ, source, named := strings.Cut(words[0], "=")
	d.addAttr(e, "type", typ)
	d.addAttr(d.insert(e, "mac", "", ""), "address", mac)
	if named {
		d.addAttr(d.insert(e, "source", "", ""), nicSource[typ], unescapeWord(source))
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		i := slices.IndexFunc(nicWords, func(w nicWord) bool { return w.key == key })
		if i < 0 || key == "managed" && value == "no" {
			continue
		}
		w, at := &nicWords[i], e
		for _, name := range w.at {
			next := at.first(name)
			if next == nil {
				next = d.insert(at, name, "", "")
			}
			at = next
		}
		switch key {
		case "pci":
			d.addAttr(at, "type", "pci")
			pciForm{}.put(d, at, value)
		case "teaming":
			half, alias, transient := strings.Cut(value, ":")
			d.addAttr(at, "type", half)
			if transient {
				d.addAttr(at, "persistent", alias)
			}
		default:
			d.addAttr(at, w.attr, value)
		}
	}
}

// nicKind is the value of a whole interface. Its canonical form has the words in their order.
var nicKind = kind{allowed: nicAllowed, canon: canonNIC, wanted: func(v string) *ValueError {
	if strings.HasPrefix(v, "<") {
		return refuse(nicAllowed, "an interface that holds more than these words say is read and put back, not made")
	}
	words := strings.Fields(v)
	typ, source, _ := strings.Cut(words[0], "=")
	given := map[string]string{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		w := nicWords[slices.IndexFunc(nicWords, func(w nicWord) bool { return w.key == key })]
		if w.value.wanted != nil {
			if bad := w.value.wanted(value); bad != nil {
				bad.Allowed = key + ": " + bad.Allowed
				return bad
			}
		}
		given[key] = value
	}
	switch half, _, _ := strings.Cut(given["teaming"], ":"); {
	case typ == "hostdev" && given["pci"] == "":
		return refuse("hostdev pci=ADDRESS …", "which function of the host it is to be")
	case typ == "hostdev" && given["driver"] != "" && given["driver"] != "vfio":
		return refuse("driver=vfio on an interface of type hostdev", "")
	case typ != "hostdev" && unescapeWord(source) == "":
		return refuse(typ+"=NAME …", "")
	case typ != "hostdev" && given["driver"] == "vfio":
		return refuse("driver=vhost or driver=qemu", "vfio is for an interface of type hostdev")
	case typ != "hostdev" && given["model"] == "":
		return refuse(typ+"="+source+" model=virtio …", "without a model the hypervisor's default is an emulated one")
	case typ != "hostdev" && !strings.HasPrefix(given["model"], "virtio") &&
		given["driver"]+given["queues"]+given["rx_queue_size"]+given["tx_queue_size"] != "":
		return refuse("these only with model=virtio", "")
	case half == "persistent" && (typ == "hostdev" || !strings.HasPrefix(given["model"], "virtio")):
		return refuse("teaming=persistent only with model=virtio", "the half of a failover pair that stays is a "+
			"virtio interface (src/qemu/qemu_validate.c)")
	case half == "persistent" && given["alias"] == "":
		return refuse("teaming=persistent with an alias=ua-NAME", "the other half names it by that")
	case half == "transient" && typ == "bridge":
		return refuse("teaming=transient of type hostdev, or of a network that is a pool of functions", "")
	}
	return nil
}}

const nicAllowed = "hostdev pci=ADDRESS [managed=yes|no], network=NAME model=MODEL or bridge=NAME model=MODEL, with " +
	"further words as they are read"

// canonNIC orders the words. It takes what stands in a document too, though it would be refused.
func canonNIC(s string) (string, bool) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return "", false
	}
	if strings.HasPrefix(words[0], "<") {
		bare := &Doc{}
		e, err := bare.fragment(strings.TrimSpace(s))
		if err != nil || e.name != "interface" {
			return "", false
		}
		return nicForm{}.get(bare, e), true
	}
	typ, source, named := strings.Cut(words[0], "=")
	switch {
	case typ == "hostdev" && !named:
	case nicSource[typ] != "" && named && source != "":
		words[0] = typ + "=" + escapeWord(unescapeWord(source))
	default:
		return "", false
	}
	given := map[string]string{}
	if typ == "hostdev" {
		given["managed"] = "no"
	}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		i := slices.IndexFunc(nicWords, func(w nicWord) bool { return w.key == key && w.of(typ) })
		if i < 0 || seen[key] {
			return "", false
		}
		canon, ok := nicWords[i].value.canon(value)
		if !ok {
			return "", false
		}
		given[key], seen[key] = canon, true
	}
	out := words[:1:1]
	for _, w := range nicWords {
		if given[w.key] != "" {
			out = append(out, w.key+"="+given[w.key])
		}
	}
	return strings.Join(out, " "), true
}

// escapeWord makes one word of a name: %XX for what would part words, and for the percent sign.
func escapeWord(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c == '%' || c == '=' || c == '<' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unescapeWord(word string) string {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		var c byte
		if n, err := fmt.Sscanf(word[i:min(len(word), i+3)], "%%%02x", &c); n == 1 && err == nil && len(word) >= i+3 {
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(word[i])
	}
	return b.String()
}
