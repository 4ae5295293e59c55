package domain

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A whole <interface> as one value: "hostdev pci=0000:01:10.0 managed=yes vlan=5", "network=pool model=virtio",
// "bridge=br0 model=virtio teaming=persistent alias=ua-backup0". The words hold everything in the element except its
// MAC address, which is the path's key, and its <address> in the guest, which libvirt assigns. If the words cannot
// express an element, its value is its XML on one line. Such a value is read and put back, never set.

// nicWord is one word of the value of a whole interface.
type nicWord struct {
	key   string
	types string   // interface types that can have it
	at    []string // elements from <interface> down
	attr  string
	value kind
}

// nicWords lists the words after the first, in the order in which they are written.
var nicWords = []nicWord{
	{"pci", "hostdev", []string{"source", "address"}, "", pciAddress},
	{"managed", "hostdev", nil, "managed", yesNo},
	{"model", "network bridge", []string{"model"}, "type", nicModel},
	{"driver", "hostdev network bridge", []string{"driver"}, "name", nicDriver},
	{"queues", "network bridge", []string{"driver"}, "queues", nicQueues},
	{"rx_queue_size", "network bridge", []string{"driver"}, "rx_queue_size", queueSize(false)},
	{"tx_queue_size", "network bridge", []string{"driver"}, "tx_queue_size",
		wordKind("only vhost-user and vDPA have more", "256")},
	{"vlan", "hostdev network bridge", []string{"vlan", "tag"}, "id", vlanTag},
	{"mtu", "network bridge", []string{"mtu"}, "size", mtuBytes},
	{"teaming", "hostdev network bridge", []string{"teaming"}, "", teamingKind},
	{"link", "hostdev network bridge", []string{"link"}, "state", wordKind("", "up", "down")},
	{"boot", "hostdev network bridge", []string{"boot"}, "order", intKind(1, 1<<20, "")},
	{"alias", "hostdev network bridge", []string{"alias"}, "name", aliasKind},
}

// aliasKind is a user alias. libvirt keeps only aliases with this prefix (src/conf/domain_conf.c, USER_ALIAS_CHARS and
// virDomainDeviceAliasIsUserAlias).
var aliasKind = kind{allowed: "ua- and letters, digits, - and _", canon: canonWord, valid: func(v string) *ValueError {
	const others = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if !isUserAlias(v) || strings.Trim(v, others) != "" {
		return refuse("ua- and letters, digits, - and _", "libvirt names a device itself where the name does not "+
			"begin with ua-")
	}
	return nil
}}

func isUserAlias(name string) bool { return strings.HasPrefix(name, "ua-") && len(name) > len("ua-") }

// teamingKind is the half of a failover pair: "persistent" is the virtio interface that stays; "transient:ALIAS" is the
// faster one that may be unplugged, with the alias of the other.
var teamingKind = kind{allowed: "persistent or transient:ALIAS", canon: canonWord, valid: func(v string) *ValueError {
	if alias, transient := strings.CutPrefix(v, "transient:"); transient {
		return aliasKind.valid(alias)
	}
	if v != "persistent" {
		return refuse("persistent or transient:ALIAS", "ALIAS is the name (<alias>) of the interface that stays")
	}
	return nil
}}

// nicSource maps an interface type to the attribute of <source> that the first word names.
var nicSource = map[string]string{"network": "network", "bridge": "bridge"}

type nicForm struct{}

// get returns the words, or the XML on one line.
func (nicForm) get(d *Doc, e *element) string {
	v, ok := d.nicInWords(e)
	if ok {
		// Build an element from the words: if it differs, the words do not say everything.
		scratch := &Doc{nl: "\n", unit: "  ", root: &element{name: "domain"}}
		made := scratch.insert(scratch.insert(scratch.root, "devices", "", ""), "interface", "", "")
		scratch.fillNIC(made, e.first("mac").get("address"), v)
		if d.meaning(e, d.ignored) == scratch.meaning(made, scratch.ignored) {
			return v
		}
	}
	return d.oneLine(e, d.ignored)
}

// put does nothing: Doc.putWhole in whole.go writes whole interfaces.
func (nicForm) put(*Doc, *element, string) {}

// nicInWords returns an interface as words. ok is false for a type without words.
func (d *Doc) nicInWords(e *element) (v string, ok bool) {
	typ := e.get("type")
	first := typ
	if attr := nicSource[typ]; attr != "" {
		name := e.first("source").get(attr)
		if name == "" {
			return "", false
		}
		first = typ + "=" + escapeWord(name)
	} else if typ != "hostdev" {
		return "", false
	}
	words := []string{first}
	for _, w := range nicWords {
		raw, there := d.nicWord(e, &w)
		if !there || !w.of(typ) {
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

func (d *Doc) nicWord(e *element, w *nicWord) (raw string, there bool) {
	at := e.first(w.at...)
	if at == nil {
		return "", false
	}
	switch w.key {
	case "pci":
		return pciOf(at), true
	case "managed":
		return managedForm{}.get(d, e), true
	case "teaming":
		if at.get("type") == "transient" {
			return "transient:" + at.get("persistent"), true
		}
		return at.get("type"), true
	}
	if at != e && d.ignored(at) || at.attr(w.attr) == nil {
		return "", false
	}
	return at.get(w.attr), true
}

// fillNIC fills an empty <interface> from a canonical value.
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

// nicKind is the value of a whole interface.
var nicKind = kind{allowed: nicAllowed, canon: canonNIC, valid: func(v string) *ValueError {
	if strings.HasPrefix(v, "<") {
		return refuse(nicAllowed, "an interface that holds more than these words say is read and put back, not made")
	}
	words := strings.Fields(v)
	typ, source, _ := strings.Cut(words[0], "=")
	given, _ := assignments(words[1:])
	for _, w := range nicWords {
		if value, is := given[w.key]; is && w.value.valid != nil {
			if bad := w.value.valid(value); bad != nil {
				bad.Allowed = w.key + ": " + bad.Allowed
				return bad
			}
		}
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

// canonNIC puts the words in their order. It also accepts documents with values that Set would refuse.
func canonNIC(s string) (string, bool) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return "", false
	}
	if strings.HasPrefix(words[0], "<") {
		e, err := fragment(strings.TrimSpace(s))
		if err != nil || e.name != "interface" {
			return "", false
		}
		return nicForm{}.get(&Doc{}, e), true
	}
	typ, source, named := strings.Cut(words[0], "=")
	name, writable := canonName(source)
	switch {
	case typ == "hostdev" && !named:
	case nicSource[typ] != "" && named && source != "" && writable:
		words[0] = typ + "=" + name
	default:
		return "", false
	}
	given, ok := assignments(words[1:])
	if typ == "hostdev" && given["managed"] == "" {
		given["managed"] = "no"
	}
	out := words[:1:1]
	for _, w := range nicWords {
		if value, is := given[w.key]; is {
			canon, good := w.value.canon(value)
			ok = ok && good && w.of(typ)
			out = append(out, w.key+"="+canon)
			delete(given, w.key)
		}
	}
	return strings.Join(out, " "), ok && len(given) == 0
}

// canonName returns a name in its canonical spelling as a word; ok is false for one that XML has no spelling for, not
// even as references (XML 1.0, section 2.2, Char).
func canonName(word string) (canon string, ok bool) {
	name := unescapeWord(word)
	return escapeWord(name), utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
	})
}

// escapeWord turns a name into one word: %XX for the percent sign and for bytes that would split the word.
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
