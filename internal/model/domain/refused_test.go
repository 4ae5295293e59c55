package domain

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"mpps/internal/must"
)

// documentTypes are documents with one, all well-formed.
var documentTypes = []string{
	"<!DOCTYPE domain><domain><name>a</name></domain>",
	"<?xml version='1.1'?>\n<!-- x -->\n<!DOCTYPE domain SYSTEM \"d.dtd\" >\n<?p?><domain><name>a</name></domain>",
	"<!DOCTYPE domain PUBLIC '-//x' 'd.dtd' [ ]><domain><name>a</name></domain>",
	`<!DOCTYPE d [<!ENTITY n "web"><!ENTITY n "other">]><domain><name>&n;1</name></domain>`,
	`<!DOCTYPE d [<!ENTITY a "w&b;"><!ENTITY b "e&#98;">]><domain><name>&a;</name></domain>`,
	"<!DOCTYPE d [\n<!ELEMENT domain ANY>\n<!ATTLIST domain a CDATA '>]'>\n<!NOTATION n SYSTEM 'x'><!-- ]> --><?p ]> " +
		"?>\n]>\n<domain><name>a</name></domain>",
	`<!DOCTYPE d [<!ENTITY % p " "><!ENTITY n 'b'>%p;]><domain><name>a&n;</name></domain>`,
	`<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/shadow">]><domain><name>a&x;</name></domain>`,
	`<!DOCTYPE d [<!ENTITY g PUBLIC "a" "b" NDATA n>]><domain><name>a</name></domain>`,
	`<!DOCTYPE d SYSTEM 'd.dtd'><domain><name>&later;</name></domain>`,
	`<!DOCTYPE d [<!ENTITY e "<devices/>">]><domain><name>a</name>&e;</domain>`,
	`<!DOCTYPE d [<!ENTITY q "4"><!ENTITY v "&#38;q;">]><domain><name>a&v;</name><vcpu>&q;</vcpu></domain>`,
	`<!DOCTYPE d [<!ENTITY c "<![CDATA[x]]>">]><domain><name>a</name><description>&c;</description></domain>`,
}

// TestDocumentTypes: libvirt never prints a document type, and its entities could hide what an edit would add.
func TestDocumentTypes(t *testing.T) {
	for _, text := range documentTypes {
		refuses(t, text, "document type declaration")
	}
}

// TestEncodings: libvirt prints UTF-8 only.
func TestEncodings(t *testing.T) {
	const text = "\ufeff<?xml version=\"1.0\" encoding=\"UTF-16\"?>\r\n<domain>\r\n  <name>caf\u00e9 " +
		"\U0001f600</name>\r\n  <vcpu>2</vcpu>\r\n</domain>\r\n"
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, whole := range []string{text, strings.TrimPrefix(text, "\ufeff")} {
			refuses(t, wide(whole, order), "UTF-16")
		}
	}
	for _, text := range []string{
		"<?xml version='1.0' encoding='KOI8-R'?><domain><name>\xc1b</name><title><![CDATA[\xc1&lt;]]></title></domain>",
		"<?xml version='1.0' encoding='latin1'?><domain><name><![CDATA[caf\xe9 &amp;]]></name></domain>",
		"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><domain><name>caf\xe9</name></domain>",
	} {
		refuses(t, text, "expected UTF-8")
	}
}

// wide encodes a text in UTF-16.
func wide(text string, order binary.AppendByteOrder) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

// refuses expects a SyntaxError with a problem and advice.
func refuses(t *testing.T, text, problem string) {
	t.Helper()
	_, err := Parse([]byte(text))
	var bad *SyntaxError
	must.Hold(t, errors.As(err, &bad) && strings.Contains(bad.Problem, problem) && bad.Advice != "",
		"%.120q: error %v, expected %q and advice", text, err, problem)
}
