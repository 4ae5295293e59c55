package domain

import (
	"cmp"
	"slices"
	"strings"
)

// NetworkPool is a libvirt network that hands out VFs: each interface of the network takes a free one when its guest
// starts (docs/formatnetwork.rst, "Using an SR-IOV VF pool").
type NetworkPool struct {
	Name      string
	PF        string   // physical function: all its VFs; empty if Functions lists them
	Functions []string // PCI addresses
	Managed   bool     // libvirt unbinds and rebinds the host driver
	VLAN      int      // tag for all its functions; 0: none
}

// Value returns the canonical value of the pool.
func (n NetworkPool) Value() string {
	value := inOrder("hostdev", "pf", escapeWord(n.PF), "functions", strings.Join(n.Functions, ","), "managed",
		yesOrNo(n.Managed), "vlan", number(n.VLAN))
	if canon, err := CanonNetwork(value); err == nil {
		return canon
	}
	return value
}

const networkAllowed = "hostdev pf=DEVICE or hostdev functions=ADDRESS,ADDRESS, with managed=yes or no, vlan=N, " +
	"driver=vfio"

// CanonNetwork returns the canonical form of a network's value. A network that is not a VF pool has its XML as value,
// which is put back but never set.
func CanonNetwork(value string) (string, error) {
	bad := &ValueError{Path: "definition", Found: value, Allowed: networkAllowed}
	words := strings.Fields(value)
	if len(words) > 0 && strings.HasPrefix(words[0], "<") {
		canon, _, err := NetworkValue(strings.TrimSpace(value))
		return canon, err
	}
	if len(words) == 0 || words[0] != "hostdev" {
		return "", bad
	}
	given, ok := assignments(words[1:])
	if (given["pf"] == "") == (given["functions"] == "") {
		return "", bad
	}
	for key, v := range given {
		switch key {
		case "pf":
			canon, writable := canonName(v)
			v, ok = canon, ok && writable
		case "functions":
			all := strings.Split(v, ",")
			for i := range all {
				address, good := CanonPCI(all[i])
				all[i], ok = address, ok && good
			}
			v = strings.Join(all, ",")
		case "managed":
			ok = ok && (v == "yes" || v == "no")
		case "vlan":
			canon, err := vlanTag.check("vlan", v, false)
			v, ok = canon, ok && err == nil
		case "driver":
			ok = ok && v == "vfio"
		default:
			ok = false
		}
		given[key] = v
	}
	if !ok {
		return "", bad
	}
	return inOrder("hostdev", "pf", given["pf"], "functions", given["functions"], "managed",
		cmp.Or(given["managed"], "no"), "driver", given["driver"], "vlan", given["vlan"]), nil
}

// NetworkValue reads libvirt's file of a network, with or without its leading comment. It returns the value, and the
// text that defines the network again unchanged.
func NetworkValue(text string) (value, verbatim string, err error) {
	e, err := network(text)
	if err != nil {
		return "", "", err
	}
	d := &Doc{}
	if v, ok := poolInWords(e); ok {
		again, err := network(networkText("n", "", v))
		if err == nil && d.meaning(e, ignoredInNetwork) == d.meaning(again, ignoredInNetwork) {
			return v, networkElement(text), nil
		}
	}
	return d.oneLine(e, ignoredInNetwork), networkElement(text), nil
}

// networkElement returns the <network> in a text: after libvirt's comment, or inside a status file.
func networkElement(text string) string {
	text = strings.TrimSpace(text)
	for strings.HasPrefix(text, "<!--") || strings.HasPrefix(text, "<?") {
		end := "?>"
		if text[1] == '!' {
			end = "-->"
		}
		_, rest, found := strings.Cut(text, end)
		if !found {
			return text
		}
		text = strings.TrimSpace(rest)
	}
	if at := strings.Index(text, "<network>"); at > 0 && strings.HasPrefix(text, "<networkstatus") {
		text = text[at:]
		if end := strings.LastIndex(text, "</network>"); end >= 0 {
			text = text[:end+len("</network>")]
		}
	}
	return text
}

func network(text string) (*element, error) {
	e, err := fragment(networkElement(text))
	if err != nil {
		return nil, err
	}
	if e.name != "network" {
		bad := &SyntaxError{Line: 1, Problem: "the document is a <" + clip(e.name) + ">, expected <network>"}
		return nil, bad
	}
	return e, nil
}

// ignoredInNetwork reports whether a network's value leaves out this part: its name, which is in the address, and its
// UUID.
func ignoredInNetwork(e *element) bool {
	return e.parent != nil && e.parent.name == "network" && (e.name == "name" || e.name == "uuid")
}

// poolInWords returns the value of a VF pool.
func poolInWords(e *element) (v string, ok bool) {
	forward := e.first("forward")
	if forward.get("mode") != "hostdev" {
		return "", false
	}
	var functions []string
	for _, a := range forward.all("address") {
		functions = append(functions, pciOf(a))
	}
	v, err := CanonNetwork(inOrder("hostdev", "pf", escapeWord(forward.first("pf").get("dev")), "functions",
		strings.Join(functions, ","), "managed", forward.get("managed"), "driver",
		forward.first("driver").get("name"), "vlan", e.first("vlan", "tag").get("id")))
	return v, err == nil
}

// NetworkXML returns the text that defines a network: verbatim if that has the value, else a new one. uuid is that of
// the existing network to replace, empty if there is none.
func NetworkXML(name, uuid, value, verbatim string) (string, error) {
	canon, err := CanonNetwork(value)
	if err != nil {
		return "", err
	}
	if _, writable := canonName(escapeWord(name)); !writable {
		return "", &ValueError{Path: "name", Found: name, Allowed: "a name without control characters"}
	}
	if verbatim != "" {
		e, err := network(verbatim)
		if v, _, other := NetworkValue(verbatim); err == nil && other == nil && v == canon &&
			e.first("name").text() == name {
			return networkElement(verbatim) + "\n", nil
		}
	}
	if strings.HasPrefix(canon, "<") {
		return "", &ValueError{Path: name, Found: value, Allowed: networkAllowed,
			Advice: "a network that is not a pool of functions is read and put back, not made"}
	}
	return networkText(name, uuid, canon), nil
}

// NetworkUUID returns the UUID in a network's XML, empty if it has none.
func NetworkUUID(text string) string {
	e, err := network(text)
	if err != nil {
		return ""
	}
	return e.first("uuid").text()
}

// networkText builds a pool from a canonical value, in libvirt's form (src/conf/network_conf.c,
// virNetworkDefFormatBuf).
func networkText(name, uuid, v string) string {
	given := func(key string) string { return wordOf(v, key) }
	quote := func(text string) string { return escape(text, '\'') }
	var b strings.Builder
	b.WriteString("<network>\n  <name>" + quote(name) + "</name>\n")
	if uuid != "" {
		b.WriteString("  <uuid>" + quote(uuid) + "</uuid>\n")
	}
	b.WriteString("  <forward mode='hostdev'")
	if given("managed") == "yes" {
		b.WriteString(" managed='yes'")
	}
	b.WriteString(">\n")
	if driver := given("driver"); driver != "" {
		b.WriteString("    <driver name='" + quote(driver) + "'/>\n")
	}
	if pf := given("pf"); pf != "" {
		b.WriteString("    <pf dev='" + quote(unescapeWord(pf)) + "'/>\n")
	}
	for _, address := range slices.DeleteFunc(strings.Split(given("functions"), ","),
		func(s string) bool { return s == "" }) {
		parts := strings.FieldsFunc(address, func(r rune) bool { return r == ':' || r == '.' })
		b.WriteString("    <address type='pci' domain='0x" + parts[0] + "' bus='0x" + parts[1] + "' slot='0x" +
			parts[2] + "' function='0x" + parts[3] + "'/>\n")
	}
	b.WriteString("  </forward>\n")
	if tag := given("vlan"); tag != "" {
		b.WriteString("  <vlan>\n    <tag id='" + tag + "'/>\n  </vlan>\n")
	}
	b.WriteString("</network>\n")
	return b.String()
}
