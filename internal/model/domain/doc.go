// Package domain reads and edits libvirt domain XML in place. It is pure: bytes in, bytes out.
//
// An edit changes the bytes of the value it names and nothing else. Comments, attribute order, quotes, indentation,
// CRLF, entities, CDATA and name spaces (qemu:commandline) stay as they were, because a domain file belongs to its
// administrator, and what libvirt prints belongs to libvirt. A document that is parsed and not edited is written byte
// for byte.
//
// That is why the tree is not an XML library's. encoding/xml drops quotes, the spelling of entities and the white space
// inside tags; beevik/etree keeps more, but rewrites attribute quotes, empty elements (<a></a> and <a />) and the
// declaration. A domain needs only a small grammar: see scan.go.
//
// Short paths name values, such as vcpupin/0 or interface/52:54:00:00:00:01/driver.queues: see path.go. rules.go lists
// them all.
package domain

import (
	"cmp"
	"strings"
)

// Doc is a parsed domain. It is not safe for concurrent use: reading fills caches.
type Doc struct {
	head string // declaration, comments and white space before the root element
	root *element
	tail string // comments and white space after the root element
	nl   string // line end of the document: "\n" or "\r\n"
	unit string // one level of indentation
	live bool   // the XML of a running guest: see ParseLive

	keyed   map[keyedAt]*keyTable // caches of the current content, dropped by each edit
	changes int                   // elements added, removed or brought back
	nics    *nicTable
}

// Limits of Parse. libvirt takes no string above 4 MiB over its protocol (VIR_NET_MESSAGE_STRING_MAX,
// src/rpc/virnetprotocol.x), and libxml2 no more than 256 levels without XML_PARSE_HUGE.
const (
	MaxBytes = 4 << 20
	MaxDepth = 256
	maxNodes = 200_000
	maxAttrs = 256 // of one element
)

// Parse reads one domain. It refuses text that is not well-formed, is not a <domain>, is encoded in anything but UTF-8,
// has a document type declaration, or exceeds the limits above. The error is a *SyntaxError.
func Parse(text []byte) (*Doc, error) {
	if len(text) > MaxBytes {
		return nil, &SyntaxError{Line: 1, Problem: sizeProblem(len(text)), Advice: "libvirt takes no larger domain " +
			"either; check that this is the right file"}
	}
	s := &scanner{src: string(text)}
	if err := s.checkCharacters(); err != nil {
		return nil, err
	}
	return s.document()
}

// ParseLive reads the XML of a running guest: virsh dumpxml, or the <domain> in libvirt's status file, which also names
// the VF that an interface got from a pool. Values of whole elements then leave out what libvirt added for the run.
func ParseLive(text []byte) (*Doc, error) {
	d, err := Parse(text)
	if err == nil {
		d.live = true
	}
	return d, err
}

// Bytes returns the document with all edits.
func (d *Doc) Bytes() []byte { return []byte(d.String()) }

func (d *Doc) String() string {
	var b strings.Builder
	b.WriteString(d.head)
	d.root.write(&b)
	b.WriteString(d.tail)
	return b.String()
}

// Clone returns an independent document with the same bytes. Edits made so far count as original there.
func (d *Doc) Clone() (*Doc, error) { return Parse(d.Bytes()) }

// layout detects the line end and the indentation for new elements.
func (d *Doc) layout(src string) {
	d.nl, d.unit = "\n", "  "
	if i := strings.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		d.nl = "\r\n"
	}
	for _, e := range d.root.elements() {
		if in := indentOf(e.lead); in != "" {
			d.unit = strings.TrimPrefix(in, d.rootIndent())
			break
		}
	}
	d.unit = cmp.Or(d.unit, "  ")
}

// rootIndent returns the white space before the root element on its line.
func (d *Doc) rootIndent() string {
	line := d.head[strings.LastIndexByte(d.head, '\n')+1:]
	if strings.Trim(line, " \t") != "" {
		return ""
	}
	return line
}
