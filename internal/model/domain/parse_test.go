package domain

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestRoundTrip(t *testing.T) {
	for name, text := range samples(t) {
		d, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(d.Bytes(), text) {
			t.Errorf("%s: written other than read:\n%s", name, d.Bytes())
		}
	}
}

func TestCorpusDomain(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(corpusDir(), "routing-guest-tuned.xml"))
	if err != nil {
		t.Skipf("the shared corpus is not here: %v", err)
	}
	d := parse(t, string(text))
	g := d.Guest()
	must.Hold(t, g.VCPUs.Max == 128 && g.VCPUs.Current == 9 && g.MemoryKiB == 16<<20 && len(g.Pins) == 9 && g.Agent &&
		len(g.Unclear) == 0, "read %+v", g)
	driver := Driver{Name: "vhost", Queues: 9, RxQueueSize: 256, TxQueueSize: 256}
	if n := g.Interfaces[1]; !reflect.DeepEqual(n.Driver, driver) || n.RxFrames != 32 || n.Source != "br_ens1f0" {
		t.Errorf("interface 1 read as %+v", n)
	}
	off := parse(t, "<domain><devices><interface type='bridge'><driver packed='on'><guest tso6='off'/>"+
		"<host csum='on' mrg_rxbuf='off' ufo='off'/></driver></interface></devices></domain>").Guest().Interfaces[0].Driver
	must.Same(t, off, (Driver{Packed: true, Off: []string{"host.mrg_rxbuf", "guest.tso6"}}),
		"a driver with offloads off read as")
	// The first interface has no driver: it must come where libvirt writes it, the second's must change in place.
	set(t, d, "interface/fa:d6:c7:18:8c:00/driver.queues", "4")
	set(t, d, "interface/FA:9B:4D:23:E1:01/driver.queues", "4")
	want := strings.Replace(string(text), "<model type='virtio'/>\n      <alias name='net0'/>",
		"<model type='virtio'/>\n      <driver queues='4'/>\n      <alias name='net0'/>", 1)
	want = strings.Replace(want, "queues='9'", "queues='4'", 1)
	must.Equal(t, d.String(), want, "edited to")
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("<a>", MaxDepth) + strings.Repeat("</a>", MaxDepth)
	many := strings.Repeat("<a/>", maxNodes+1)
	wide := "<domain"
	for i := range maxAttrs + 1 {
		wide += " a" + strings.Repeat("b", i) + "='1'"
	}
	cases := []struct {
		name, text string
		line       int
		problem    string
	}{
		{"nothing", "", 1, "no text"},
		{"white space", " \n\t", 1, "no text"},
		{"comment only", "<!-- x -->\n", 2, "no element"},
		{"not XML", "hello", 1, "text outside"},
		{"JSON", `{"domain": 1}`, 1, "text outside"},
		{"other root", "<!-- -->\n<network/>", 2, "<network>, expected <domain>"},
		{"cut off", "<domain>\n<name>x", 2, "the text ends inside <name>"},
		{"cut off in a tag", "<domain>\n<name", 2, "<name has no end"},
		{"cut off in a value", "<domain>\n<a b='", 2, "no closing quote"},
		{"crossed tags", "<domain>\n\n<a><b></a></b></domain>", 3, "</a> found, expected </b>"},
		{"two roots", "<domain/>\n<domain/>", 2, "something follows"},
		{"text after", "<domain/>\nx", 2, "text outside"},
		{"text before", "x<domain/>", 1, "text outside"},
		{"no quotes", "<domain type=kvm/>", 1, "not in quotes"},
		{"no value", "<domain type/>", 1, "no value"},
		{"no space", "<domain a='1'b='2'/>", 1, "white space is missing"},
		{"same attribute twice", "<domain a='1' a='2'/>", 1, "attribute a twice"},
		{"< in a value", "<domain a='<'/>", 1, "< in the value"},
		{"bare ampersand", "<domain>\n a & b</domain>", 2, "not a known entity"},
		{"unknown entity", "<domain>&nbsp;</domain>", 1, "not a known entity"},
		{"entity to a control character", "<domain>&#1;</domain>", 1, "not a known entity"},
		{"two document types", "<!DOCTYPE domain>\n<!DOCTYPE domain><domain/>", 1, "document type"},
		{"late document type", "<domain/>\n<!DOCTYPE domain>", 2, "document type"},
		{"open document type", "<!DOCTYPE domain [\n<domain/>", 1, "document type"},
		{"document type without name", "<!DOCTYPE>\n<domain/>", 1, "document type"},
		{"document type without end", "<!DOCTYPE domain <domain/>", 1, "document type"},
		{"public id alone", "<!DOCTYPE domain PUBLIC 'x'><domain/>", 1, "document type"},
		{"entity without text", "<!DOCTYPE d [<!ENTITY a >]><domain/>", 1, "document type"},
		{"entity without end", "<!DOCTYPE d [<!ENTITY a 'x' ]><domain/>", 1, "document type"},
		{"entity in itself", `<!DOCTYPE d [<!ENTITY a "&b;"><!ENTITY b "&a;">]><domain>&b;</domain>`, 1, "document type"},
		{"entity bomb", `<!DOCTYPE d [<!ENTITY a "` + strings.Repeat("a", 1000) + `"><!ENTITY b "` +
			strings.Repeat("&a;", 1000) + `">]><domain>&b;</domain>`, 1, "document type"},
		{"many entities", `<!DOCTYPE d [<!ENTITY a "` + strings.Repeat("a", 60000) + `">]><domain>` +
			strings.Repeat("&a;", 100) + `</domain>`, 1, "document type"},
		{"elements in a value", `<!DOCTYPE d [<!ENTITY a "<b/>">]><domain a='&a;'/>`, 1, "document type"},
		{"external entity in a value", `<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/shadow">]><domain a='&x;'/>`, 1,
			"document type"},
		{"undeclared beside declared", `<!DOCTYPE d [<!ENTITY a "b">]><domain>&c;</domain>`, 1, "document type"},
		{"undeclared in a standalone document",
			`<?xml version='1.0' standalone='yes'?><!DOCTYPE d SYSTEM 'd.dtd'><domain>&c;</domain>`, 1,
			"document type"},
		{"parameter entity in a text", `<!DOCTYPE d [<!ENTITY a "%b;">]><domain/>`, 1, "document type"},
		{"declaration inside", "<domain><!ELEMENT a ANY></domain>", 1, "declaration inside"},
		{"late XML declaration", "\n<?xml version='1.0'?><domain/>", 2, "not at the start"},
		{"XML 2.0", "<?xml version='2.0'?><domain/>", 1, "XML version"},
		{"declaration out of order", "<?xml encoding='UTF-8' version='1.0'?><domain/>", 1, "out of place"},
		{"declaration without version", "<?xml ?><domain/>", 1, "no version"},
		{"foreign encoding", "<?xml version='1.0' encoding='EBCDIC'?><domain/>", 1, "encoding"},
		{"half of UTF-16", "\xff\xfe<\x00d", 1, "UTF-16"},
		{"half a pair in UTF-16", "\xff\xfe<\x00d\x00\x00\xd8", 1, "UTF-16"},
		{"declared as UTF-16 only", "<?xml version='1.0' encoding='UTF-16'?><domain/>", 1, "encoding"},
		{"mark against declaration", "\ufeff<?xml version='1.0' encoding='ISO-8859-1'?><domain/>", 1, "encoding"},
		{"Shift_JIS", "<?xml version='1.0' encoding='Shift_JIS'?><domain/>", 1, "encoding"},
		{"mark only", "\ufeff", 1, "no text"},
		{"not UTF-8", "<domain>\n\xe9</domain>", 2, "0xe9 is not UTF-8"},
		{"NUL", "<domain>\n\x00</domain>", 2, "0x00"},
		{"-- in a comment", "<domain><!-- a -- b --></domain>", 1, "-- inside a comment"},
		{"open comment", "<domain><!-- a </domain>", 1, "comment has no end"},
		{"open CDATA", "<domain><![CDATA[ </domain>", 1, "CDATA section has no end"},
		{"]]> in text", "<domain>]]></domain>", 1, "]]>"},
		{"two colons", "<domain><a:b:c/></domain>", 1, "not a name"},
		{"nested too deep", "<domain>" + deep + "</domain>", 1, "nested deeper"},
		{"too many elements", "<domain>" + many + "</domain>", 1, "more than"},
		{"too many attributes", wide + "/>", 1, "attributes"},
		{"too large", strings.Repeat(" ", MaxBytes+1), 1, "at most"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			var bad *SyntaxError
			must.Need(t, errors.As(err, &bad), "error %v, expected a SyntaxError", err)
			must.Hold(t, bad.Line == c.line && strings.Contains(bad.Problem, c.problem),
				"line %d: %s; expected line %d: %s", bad.Line, bad.Problem, c.line, c.problem)
			must.Hold(t, len(err.Error()) <= 300 && !strings.Contains(err.Error(), "\n"),
				"the message is not one short line: %q", err)
		})
	}
}

func TestParseAccepts(t *testing.T) {
	for _, text := range []string{
		"\ufeff<?xml version='1.0' encoding='utf-8' standalone='yes'?>\r\n<domain/>",
		"<domain>" + strings.Repeat("<a>", MaxDepth-1) + strings.Repeat("</a>", MaxDepth-1) + "</domain>",
		"<domain><!----><![CDATA[]]><?p?><?q  ?>&#x10FFFF;&lt;</domain>",
		"<domain><élan ü='ö'/></domain>",
		"<domain\n>\n</domain\n>\n\n",
	} {
		if d := parse(t, text); d.String() != text {
			t.Errorf("%q came back as %q", text, d.String())
		}
	}
}
