package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// form reads and writes a value that is more than one attribute. Such values are set as one because libvirt refuses
// half of them: a realtime scheduler without a priority, a NUMA cell without memory.
type form interface {
	get(d *Doc, e *element) string    // as written; the rule's kind makes it canonical
	put(d *Doc, e *element, v string) // v is canonical; a parsed value that means the same comes back byte for byte
}

// presenceForm is an element without a value: present or absent.
type presenceForm struct{}

func (presenceForm) get(*Doc, *element) string  { return "yes" }
func (presenceForm) put(*Doc, *element, string) {}

// setCanon sets an attribute whose values are compared in canonical form.
func (d *Doc) setCanon(e *element, name, value string, canon func(string) (string, bool)) {
	d.setAttr(e, name, value, func(raw string) bool {
		c, ok := canon(decode(raw))
		w, _ := canon(value)
		return ok && c == w
	})
}

// schedForm is a scheduler and its priority: "fifo:1", "rr:20", "batch", "idle".
type schedForm struct{}

func (schedForm) get(d *Doc, e *element) string {
	if e.attr("priority") == nil {
		return e.get("scheduler")
	}
	return e.get("scheduler") + ":" + e.get("priority")
}

func (schedForm) put(d *Doc, e *element, v string) {
	policy, priority, realtime := strings.Cut(v, ":")
	d.setCanon(e, "scheduler", policy, canonWord)
	if realtime {
		d.setCanon(e, "priority", priority, canonInt)
	} else {
		e.removeAttr("priority")
	}
}

// sched is a policy of sched(7) that libvirt supports. The realtime ones have a priority from 1 to 99.
var sched = kind{allowed: "fifo:PRIORITY or rr:PRIORITY (1 to 99), batch, idle", canon: func(s string) (string, bool) {
	policy, priority, realtime := strings.Cut(strings.TrimSpace(s), ":")
	if policy, ok := canonWord(policy); !ok || !realtime {
		return policy, ok
	}
	n, ok := canonInt(priority)
	return strings.TrimSpace(policy) + ":" + n, ok
}, valid: func(v string) *ValueError {
	policy, priority, has := strings.Cut(v, ":")
	n, _ := strconv.Atoi(priority)
	switch {
	case policy == "fifo" || policy == "rr":
		if !has || n < 1 || n > 99 {
			return refuse(policy+" with a priority from 1 to 99, such as "+policy+":1", "priorities above 49 starve "+
				"the kernel's own interrupt threads")
		}
		return nil
	case (policy == "batch" || policy == "idle") && !has:
		return nil
	}
	return refuse("fifo:PRIORITY or rr:PRIORITY (1 to 99), batch, idle", "")
}}

// nodesForm is a memory mode and its nodes, "strict:0-1". libvirt refuses a mode without nodes, and defaults to strict
// for nodes without a mode.
type nodesForm struct{}

var numaNodes = kind{allowed: "MODE:NODES such as strict:0", canon: func(s string) (string, bool) {
	mode, set, found := strings.Cut(strings.TrimSpace(s), ":")
	if !found {
		mode, set = "strict", mode
	}
	mode, isWord := canonWord(mode)
	nodes, isSet := canonSet(set)
	return mode + ":" + nodes, isWord && isSet
}, valid: func(v string) *ValueError {
	mode, _, _ := strings.Cut(v, ":")
	return numaMode.valid(mode)
}, validIn: refuseWithAuto}

func (nodesForm) get(d *Doc, e *element) string {
	if mode := e.get("mode"); mode != "" {
		return mode + ":" + e.get("nodeset")
	}
	return e.get("nodeset")
}

func (nodesForm) put(d *Doc, e *element, v string) {
	mode, nodes, _ := strings.Cut(v, ":")
	if e.attr("mode") != nil || mode != "strict" || e.made {
		d.setCanon(e, "mode", mode, canonWord)
	}
	d.setCanon(e, "nodeset", nodes, canonSet)
}

// pciForm is a PCI address in the four attributes of <address>: "0000:01:10.0".
type pciForm struct{}

var pciParts = [...]struct {
	name   string
	most   uint64
	digits int
}{{"domain", 0xffffffff, 4}, {"bus", 0xff, 2}, {"slot", 0x1f, 2}, {"function", 7, 1}}

// pciOf returns an address in the kernel's form. libvirt reads 0x as hexadecimal, 0 as octal, the rest as decimal
// (virXMLPropUInt with base 0); domain and function are optional.
func pciOf(e *element) string {
	var part [4]uint64
	for i, p := range pciParts {
		text := strings.TrimSpace(e.get(p.name))
		if text == "" && (p.name == "domain" || p.name == "function") {
			continue
		}
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil || n > p.most {
			return p.name + " " + text
		}
		part[i] = n
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", part[0], part[1], part[2], part[3])
}

func (pciForm) get(_ *Doc, e *element) string { return pciOf(e) }

func (pciForm) put(d *Doc, e *element, v string) {
	parts := strings.FieldsFunc(v, func(r rune) bool { return r == ':' || r == '.' })
	for i, p := range pciParts {
		wanted, _ := strconv.ParseUint(parts[i], 16, 32)
		if wanted == 0 && e.attr(p.name) == nil && !e.made && p.name != "bus" && p.name != "slot" {
			continue // libvirt reads a missing one as 0
		}
		d.setAttr(e, p.name, fmt.Sprintf("0x%0*x", p.digits, wanted), func(raw string) bool {
			n, err := strconv.ParseUint(strings.TrimSpace(decode(raw)), 0, 32)
			return err == nil && n == wanted
		})
	}
}

var pciAddress = kind{allowed: "a PCI address such as 0000:01:10.0", canon: CanonPCI}

// CanonPCI returns a PCI address in the kernel's form: 0000:01:10.0. The domain is optional.
func CanonPCI(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) == 3 {
		parts, s = slices.Insert(parts, 0, "0"), "0:"+s
	}
	if len(parts) != 4 || strings.Count(s, ":") != 2 || strings.Count(s, ".") != 1 ||
		strings.LastIndexByte(s, ':') > strings.IndexByte(s, '.') {
		return "", false
	}
	var n [4]uint64
	for i, p := range pciParts {
		v, err := strconv.ParseUint(parts[i], 16, 32)
		if err != nil || v > p.most {
			return "", false
		}
		n[i] = v
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", n[0], n[1], n[2], n[3]), true
}

// hostdevForm is a <hostdev> that passes a PCI function to the guest: "managed" if libvirt unbinds the host driver when
// the guest starts and binds it again afterwards, "unmanaged" if somebody else does.
type hostdevForm struct{}

var hostdevKind = kind{allowed: "managed or unmanaged", canon: canonWord, valid: func(v string) *ValueError {
	if v != "managed" && v != "unmanaged" {
		return refuse("managed or unmanaged", "managed: libvirt binds the function to vfio-pci and gives it back")
	}
	return nil
}}

func (hostdevForm) get(d *Doc, e *element) string {
	if e.get("managed") == "yes" {
		return "managed"
	}
	return "unmanaged"
}

func (f hostdevForm) put(d *Doc, e *element, v string) {
	if !e.made && f.get(d, e) == v {
		return
	}
	d.setCanon(e, "managed", map[string]string{"managed": "yes", "unmanaged": "no"}[v], canonWord)
}

// managedForm is whether libvirt unbinds and rebinds the host driver of a function. The default is no, which libvirt
// does not write.
type managedForm struct{}

// has reports whether the interface can have this value.
func (managedForm) has(e *element) bool { return e.get("type") == "hostdev" }

func (managedForm) get(d *Doc, e *element) string {
	if e.get("managed") == "yes" {
		return "yes"
	}
	return "no"
}

func (f managedForm) put(d *Doc, e *element, v string) {
	if f.get(d, e) == v {
		return
	}
	for _, a := range e.attrs {
		if a.name == "managed" && v == "no" && (a.made || strings.TrimSpace(decode(a.orig)) == "yes") {
			e.removeAttr("managed")
			return
		}
	}
	d.setCanon(e, "managed", v, canonWord)
}

// hostdevKey returns the PCI address of a <hostdev>, "" for other types.
func hostdevKey(e *element) string {
	a := e.first("source", "address")
	if a == nil || e.get("type") != "pci" {
		return ""
	}
	key, _ := CanonPCI(pciOf(a))
	return key
}

// makeHostdev fills a new <hostdev> for a PCI function.
func (d *Doc) makeHostdev(e *element, key string) {
	for _, a := range [...]string{"mode=subsystem", "type=pci", "managed=yes"} {
		name, value, _ := strings.Cut(a, "=")
		d.addAttr(e, name, value)
	}
	pciForm{}.put(d, d.insert(d.insert(e, "source", "", ""), "address", "", ""), key)
}
