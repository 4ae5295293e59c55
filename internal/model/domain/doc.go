// Package domain reads and edits libvirt domain XML in place. It is pure: bytes in, bytes out.
//
// A domain file belongs to its administrator, and what libvirt prints belongs to libvirt. So an edit changes the bytes
// of the value it names and no others: comments, attribute order, quotes, indentation, CRLF, entities, CDATA and name
// spaces (qemu:commandline) stay as they were, and a document that was parsed and not edited is written byte for byte.
//
// The tree is our own and not an XML library's for that reason. encoding/xml drops quotes, the spelling of entities and
// the white space inside tags; beevik/etree keeps more, but rewrites attribute quotes, empty elements (<a></a> and
// <a />) and the declaration. The grammar that a domain needs is small: see scan.go.
//
// Values are named by short paths such as vcpupin/0 or interface/52:54:00:00:00:01/driver.queues: see path.go. The
// whole list is in rules.go.
package domain

import "strings"

// Doc is a parsed domain. It is not safe for use by several goroutines: reading fills caches.
type Doc struct {
	head     string // declaration, comments and white space before the root element
	root     *element
	tail     string // comments and white space after it
	charset  charset
	entities *entities // declared by a document type; nil if there is none
	hidden   string    // a reference that stands for elements that are not looked into
	nl       string    // line end of the document: "\n" or "\r\n"
	unit     string    // one level of indentation
	live     bool      // what a running guest has: see ParseLive

	keyed   map[keyedAt]*keyTable // until the next edit
	changes int                   // elements made, taken away or brought back
	nics    *nicTable             // likewise
}

// Limits of Parse. libvirt itself takes no string above 4 MiB over its protocol (VIR_NET_MESSAGE_STRING_MAX,
// src/rpc/virnetprotocol.x), and libxml2 no more than 256 levels without XML_PARSE_HUGE.
const (
	MaxBytes = 4 << 20
	MaxDepth = 256
	maxNodes = 200_000
	maxAttrs = 256 // of one element
)

// Parse reads one domain. It refuses anything that is not well-formed, is not a <domain>, has an encoding that is
// neither UTF-8, UTF-16 nor one byte a character, or is beyond the limits above. The error is a *SyntaxError.
func Parse(text []byte) (*Doc, error) {
	if len(text) > MaxBytes {
		return nil, &SyntaxError{Line: 1, Problem: sizeProblem(len(text)), Advice: "libvirt takes no larger domain " +
			"either; check that this is the right file"}
	}
	src, charset, err := decoded(text)
	if err != nil {
		return nil, err
	}
	s := &scanner{src: src, charset: charset}
	if err := s.checkCharacters(); err != nil {
		return nil, err
	}
	return s.document()
}

// ParseLive reads what a guest runs with (virsh dumpxml, or the <domain> in libvirt's status file, which knows the
// network behind a function that came out of a pool). The values of whole elements then leave out what libvirt has
// added for the run.
func ParseLive(text []byte) (*Doc, error) {
	d, err := Parse(text)
	if err == nil {
		d.live = true
	}
	return d, err
}

// Bytes gives the document as it is now.
func (d *Doc) Bytes() []byte { return d.charset.encoded(d.text()) }

// String is Bytes as a string.
func (d *Doc) String() string { return string(d.Bytes()) }

func (d *Doc) text() string {
	var b strings.Builder
	b.WriteString(d.head)
	d.root.write(&b)
	b.WriteString(d.tail)
	return b.String()
}

// Clone gives an independent document with the same bytes. What has been edited counts as original in it.
func (d *Doc) Clone() (*Doc, error) { return Parse(d.Bytes()) }

// layout finds the line end and the indentation that new elements will take.
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
	if d.unit == "" {
		d.unit = "  "
	}
}

// rootIndent is the white space before the root element on its line.
func (d *Doc) rootIndent() string {
	line := d.head[strings.LastIndexByte(d.head, '\n')+1:]
	if strings.Trim(line, " \t") != "" {
		return ""
	}
	return line
}
