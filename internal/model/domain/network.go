package domain

import (
	"slices"
	"strings"
)

// NetworkPool is a network of libvirt that gives virtual functions to guests: each interface of the network takes a
// free one at its guest's start (docs/formatnetwork.rst, "Using an SR-IOV VF pool").
type NetworkPool struct {
	Name      string
	PF        string   // all functions of a physical one; empty where they are named
	Functions []string // PCI addresses
	Managed   bool     // libvirt takes a function from its host driver and gives it back
	VLAN      int      // of all its functions; 0: none
}

// Value is the pool as a value.
func (n NetworkPool) Value() string {
	words := []string{"hostdev"}
	if n.PF != "" {
		words = append(words, "pf="+escapeWord(n.PF))
	}
	if len(n.Functions) > 0 {
		words = append(words, "functions="+strings.Join(n.Functions, ","))
	}
	managed := "no"
	if n.Managed {
		managed = "yes"
	}
	words = append(words, "managed="+managed)
	if n.VLAN != 0 {
		words = append(words, "vlan="+number(n.VLAN))
	}
	value := strings.Join(words, " ")
	if canon, err := CanonNetwork(value); err == nil {
		return canon
	}
	return value
}

const networkAllowed = "hostdev pf=DEVICE or hostdev functions=ADDRESS,ADDRESS, with managed=yes or no, vlan=N, " +
	"driver=vfio"

// CanonNetwork is the canonical form of a network's value. What is not a pool of functions is XML, which is put back
// and not wanted.
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
	given := map[string]string{"managed": "no"}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		key, v, _ := strings.Cut(word, "=")
		ok := v != "" && !seen[key]
		switch key {
		case "pf":
			v = escapeWord(unescapeWord(v))
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
			v, ok = canonTag(v)
		case "driver":
			ok = ok && v == "vfio"
		default:
			ok = false
		}
		if !ok {
			return "", bad
		}
		given[key], seen[key] = v, true
	}
	if seen["pf"] == seen["functions"] {
		return "", bad
	}
	for _, key := range []string{"pf", "functions", "managed", "driver", "vlan"} {
		if given[key] != "" {
			given[""] += " " + key + "=" + given[key]
		}
	}
	return "hostdev" + given[""], nil
}

func canonTag(v string) (string, bool) {
	v, ok := canonInt(v)
	return v, ok && vlanTag.wanted(v) == nil
}

// NetworkValue reads what libvirt keeps of a network, with or without the comment in front of it: the value, and the
// text with which it can be defined again as it was.
func NetworkValue(text string) (value, verbatim string, err error) {
	d, e, err := network(text)
	if err != nil {
		return "", "", err
	}
	if v, ok := d.poolInWords(e); ok {
		made, again, err := network(networkText("n", "", v))
		if err == nil && d.meaning(e, d.networkPassed) == made.meaning(again, made.networkPassed) {
			return v, networkOf(text), nil
		}
	}
	return d.oneLine(e, d.networkPassed), networkOf(text), nil
}

// networkOf is the <network> of a text: behind libvirt's comment, or inside a status file.
func networkOf(text string) string {
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

func network(text string) (*Doc, *element, error) {
	d := &Doc{}
	e, err := d.fragment(networkOf(text))
	if err != nil {
		return nil, nil, err
	}
	if e.name != "network" {
		bad := &SyntaxError{Line: 1, Problem: "the document is a <" + clip(e.name) + ">, expected <network>"}
		return nil, nil, bad
	}
	return d, e, nil
}

// networkPassed tells what a network's value leaves out: its name, which the address has, and its UUID.
func (d *Doc) networkPassed(e *element) bool {
	return e.parent != nil && e.parent.name == "network" && (e.name == "name" || e.name == "uuid")
}

// poolInWords is the value of a network that is a pool of functions.
func (d *Doc) poolInWords(e *element) (v string, ok bool) {
	forward := e.first("forward")
	if forward.get(d, "mode") != "hostdev" {
		return "", false
	}
	words := []string{"hostdev"}
	if pf := forward.first("pf").get(d, "dev"); pf != "" {
		words = append(words, "pf="+escapeWord(pf))
	}
	var all []string
	for _, a := range forward.all("address") {
		all = append(all, pciForm{}.get(d, a))
	}
	if len(all) > 0 {
		words = append(words, "functions="+strings.Join(all, ","))
	}
	for _, w := range []struct{ key, value string }{
		{"managed", forward.get(d, "managed")}, {"driver", forward.first("driver").get(d, "name")},
		{"vlan", e.first("vlan", "tag").get(d, "id")},
	} {
		if w.value != "" {
			words = append(words, w.key+"="+w.value)
		}
	}
	v, err := CanonNetwork(strings.Join(words, " "))
	return v, err == nil
}

// NetworkXML is the text to define a network with: verbatim where that holds the value, else one made of it. uuid is
// that of the network that is there and is to become another; empty where there is none.
func NetworkXML(name, uuid, value, verbatim string) (string, error) {
	canon, err := CanonNetwork(value)
	if err != nil {
		return "", err
	}
	if verbatim != "" {
		d, e, err := network(verbatim)
		if v, _, other := NetworkValue(verbatim); err == nil && other == nil && v == canon &&
			e.first("name").text(d) == name {
			return networkOf(verbatim) + "\n", nil
		}
	}
	if strings.HasPrefix(canon, "<") {
		return "", &ValueError{Path: name, Found: value, Allowed: networkAllowed,
			Advice: "a network that is not a pool of functions is read and put back, not made"}
	}
	return networkText(name, uuid, canon), nil
}

// NetworkUUID is the UUID in the text of a network; empty where it has none.
func NetworkUUID(text string) string {
	d, e, err := network(text)
	if err != nil {
		return ""
	}
	return e.first("uuid").text(d)
}

// networkText makes a pool of a canonical value, as libvirt writes it (src/conf/network_conf.c,
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
