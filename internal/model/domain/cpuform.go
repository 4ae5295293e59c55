package domain

import (
	"slices"
	"strings"
)

// cpuForm is the guest's CPU: a mode, and for mode custom also the model, since libvirt drops the model with the mode:
// "host-passthrough", "custom model=Skylake-Client fallback=forbid vendor=Intel match=exact check=partial".
type cpuForm struct{}

// cpuWords are the words after custom, in order: their location in the document and their values.
var cpuWords = []struct {
	word, child, attr string // attr of child, or of <cpu> if child is empty; without attr, the child's text
	allowed           []string
}{
	{"model", "model", "", nil}, {"fallback", "model", "fallback", []string{"allow", "forbid"}},
	{"vendor_id", "model", "vendor_id", nil},
	{"vendor", "vendor", "", nil}, {"match", "", "match", []string{"exact", "minimum", "strict"}},
	{"check", "", "check", []string{"none", "partial", "full"}},
}

var cpuModes = []string{"host-passthrough", "host-model", "custom", "maximum"}

var cpuMode = kind{allowed: strings.Join(cpuModes, ", "), canon: func(s string) (string, bool) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return "", false
	}
	given, ok := assignments(words[1:])
	out := words[0]
	for _, w := range cpuWords {
		if v, is := given[w.word]; is && len(v) <= 64 {
			out += " " + w.word + "=" + v
			delete(given, w.word)
		}
	}
	_, isWord := canonWord(words[0])
	return out, ok && isWord && len(given) == 0 && (len(words) == 1 || words[0] == "custom")
}, valid: func(v string) *ValueError {
	words := strings.Fields(v)
	if !slices.Contains(cpuModes, words[0]) {
		return refuse(strings.Join(cpuModes, ", "), "")
	}
	given, _ := assignments(words[1:])
	for _, w := range cpuWords {
		if v, is := given[w.word]; is && w.allowed != nil && !slices.Contains(w.allowed, v) {
			return refuse(w.word+"="+strings.Join(w.allowed, ", "+w.word+"="), "")
		}
	}
	return nil
}, validIn: func(v string, _ *element, d *Doc) *ValueError {
	if v == "custom" && d.root.first("cpu", "model") == nil {
		return refuse("custom with a model, such as 'custom model=Skylake-Client'",
			"'virsh cpu-models x86_64' lists models")
	}
	return nil
}}

// has: a model without a mode means custom (src/conf/cpu_conf.c, virCPUDefParseXML).
func (cpuForm) has(e *element) bool { return e.attr("mode") != nil || e.first("model") != nil }

func (cpuForm) mode(e *element) string {
	if a := e.attr("mode"); a != nil {
		return strings.TrimSpace(decode(a.raw))
	}
	return "custom"
}

func (f cpuForm) get(d *Doc, e *element) string {
	out := f.mode(e)
	for _, w := range cpuWords {
		if v := f.word(e, w.child, w.attr); out != "" && f.mode(e) == "custom" && v != "" {
			out += " " + w.word + "=" + v
		}
	}
	return out
}

func (cpuForm) word(e *element, child, attr string) string {
	if child != "" {
		e = e.first(child)
	}
	if attr == "" {
		return e.text()
	}
	return strings.TrimSpace(e.get(attr))
}

// ofHost reports whether the guest sees the host's own CPU in this mode.
func ofHost(mode string) bool { return mode == "host-passthrough" || mode == "maximum" }

func (f cpuForm) put(d *Doc, e *element, v string) {
	if f.has(e) && f.get(d, e) == v {
		return
	}
	words := strings.Fields(v)
	f.migration(e, words[0])
	if a := e.attr("mode"); words[0] == "custom" && a != nil && a.made && len(words) > 1 && e.first("model") != nil {
		e.removeAttr("mode") // as it was: a model without a mode
	} else if f.mode(e) != words[0] || a == nil && words[0] != "custom" || a == nil && e.first("model") == nil {
		d.setCanon(e, "mode", words[0], canonWord)
	}
	if len(words) < 2 {
		return
	}
	given, _ := assignments(words[1:])
	for _, w := range cpuWords {
		value, is := given[w.word]
		at := e
		if w.child != "" {
			at = d.child(e, w.child, w.attr == "", value, is || w.attr != "" && given[w.child] != "")
		}
		switch {
		case w.attr == "" || at == nil:
		case is:
			d.setCanon(at, w.attr, value, canonWord)
		default:
			at.removeAttr(w.attr)
		}
	}
}

// migration removes what libvirt adds with one sort of mode (the host's own CPU or another) when the sort changes:
// migratable, which it refuses with the other sort, and its default for check. Parsed attributes come back with their
// mode.
func (f cpuForm) migration(e *element, to string) {
	from, own := ofHost(f.mode(e)), false // own: of the parsed mode
	for _, a := range e.attrs {
		own = own || a.name == "mode" && !a.made && ofHost(strings.TrimSpace(decode(a.orig)))
	}
	for _, a := range slices.Clone(e.attrs) {
		if a.name != "migratable" && a.name != "check" {
			continue
		}
		beside := "partial"
		if from {
			beside = "none"
		}
		switch {
		case !a.made && to != "" && own == ofHost(to):
			a.gone = false
		case a.gone || from == ofHost(to):
		case a.name == "migratable" && from, a.name == "check" && a.raw == beside:
			e.removeAttr(a.name)
		}
	}
}

// child returns the child with a text, brought back or added if necessary. If it is not wanted, child removes it and
// returns nil.
func (d *Doc) child(e *element, name string, byText bool, text string, wanted bool) *element {
	is := e.first(name)
	if !byText {
		return is
	}
	if is != nil && (!wanted || is.text() != text) {
		d.remove(is)
		is = nil
	}
	if is != nil || !wanted {
		return is
	}
	for _, n := range e.kids {
		if n.el != nil && n.el.gone && n.el.name == name && n.el.text() == text {
			d.bringBack(n.el)
			return n.el
		}
	}
	is = d.insert(e, name, "", "")
	is.selfClosed, is.bare, is.end = false, false, "</"+name+">"
	is.kids = []node{{kind: textNode, raw: escape(text, '"')}}
	return is
}

// drop removes the CPU mode and model. Attributes that were parsed without a mode stay.
func (cpuForm) drop(d *Doc, e *element) {
	had := false // a mode or model was parsed
	for _, a := range e.attrs {
		had = had || a.name == "mode" && !a.made
	}
	for _, n := range e.kids {
		had = had || n.el != nil && n.el.name == "model" && !n.el.made
	}
	for _, a := range slices.Clone(e.attrs) {
		switch a.name {
		case "match", "check", "migratable":
			if a.made || had {
				e.removeAttr(a.name)
			} else {
				a.gone = false
			}
		case "mode":
			e.removeAttr(a.name)
		}
	}
	for _, name := range []string{"model", "vendor"} {
		if c := e.first(name); c != nil {
			d.remove(c)
		}
	}
}
