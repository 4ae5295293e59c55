package domain

import (
	"maps"
	"slices"
	"strings"
)

// Mark is an element that a program wrote below <metadata>. libvirt keeps it and gives it no meaning; it accepts one
// element for each namespace (https://libvirt.org/formatdomain.html#general-metadata).
type Mark struct {
	Namespace string            // URI; the prefix is the writer's choice and means nothing
	Name      string            // of the element, without its prefix
	Fields    map[string]string // texts of its child elements in the same namespace, the first of each name
}

// SystemInfo is what <sysinfo type='smbios'> shows the guest as its maker.
type SystemInfo struct{ Manufacturer, Product string }

// render writes the element.
func (m *Mark) render(w *writer) {
	w.line("<mpps:"+m.Name+" xmlns:mpps='%s'>", m.Namespace)
	w.depth++
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		w.line("<mpps:"+name+">%s</mpps:"+name+">", m.Fields[name])
	}
	w.depth--
	w.raw("</mpps:" + m.Name + ">")
}

// SameAs reports whether both say the same.
func (m *Mark) SameAs(o Mark) bool {
	return m.Namespace == o.Namespace && m.Name == o.Name && maps.Equal(m.Fields, o.Fields)
}

// Limits of what is read of metadata, which others write: the tenants of a cloud choose some of it.
const (
	maxMarks  = 64
	maxFields = 32
	maxField  = 256 // bytes; longer texts are left out
)

// marks returns the elements below <metadata> that have a namespace.
func (r *reader) marks(root *element) []Mark {
	var all []Mark
	for _, metadata := range root.all("metadata") {
		for _, e := range metadata.elements() {
			if space, name := e.qualified(); space != "" && len(all) < maxMarks {
				all = append(all, Mark{Namespace: space, Name: name, Fields: e.fields(space)})
			}
		}
	}
	return all
}

// fields returns the short texts of the child elements in a namespace.
func (e *element) fields(space string) map[string]string {
	fields := map[string]string{}
	for _, child := range e.elements() {
		of, name := child.qualified()
		if _, seen := fields[name]; seen || of != space || len(fields) >= maxFields {
			continue
		}
		if text := child.text(); text != "" && len(text) <= maxField {
			fields[name] = text
		}
	}
	return fields
}

// qualified returns the namespace of an element and its name without prefix, by the declarations in scope (Namespaces
// in XML 1.0, section 6). The namespace is empty if it has none, or if its prefix is not declared.
func (e *element) qualified() (space, name string) {
	declaration, name := "xmlns", e.name
	if prefix, local, prefixed := strings.Cut(e.name, ":"); prefixed {
		declaration, name = "xmlns:"+prefix, local
	}
	for at := e; at != nil; at = at.parent {
		if at.attr(declaration) != nil {
			return at.get(declaration), name
		}
	}
	return "", name
}

// systemInfo reads <sysinfo>.
func systemInfo(root *element) (info SystemInfo) {
	for _, sysinfo := range root.all("sysinfo") {
		if sysinfo.get("type") != "smbios" {
			continue
		}
		for _, e := range sysinfo.first("system").all("entry") {
			switch e.get("name") {
			case "manufacturer":
				info.Manufacturer = e.text()
			case "product":
				info.Product = e.text()
			}
		}
	}
	return info
}
