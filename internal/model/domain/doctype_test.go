package domain

import (
	"errors"
	"strings"
	"testing"
)

// documentTypes are documents with one, and the guest's name in each.
var documentTypes = map[string]string{
	"<!DOCTYPE domain><domain><name>a</name></domain>":                                                             "a",
	"<?xml version='1.1'?>\n<!-- x -->\n<!DOCTYPE domain SYSTEM \"d.dtd\" >\n<?p?><domain><name>a</name></domain>": "a",
	"<!DOCTYPE domain PUBLIC '-//x' 'd.dtd' [ ]><domain><name>a</name></domain>":                                   "a",
	`<!DOCTYPE d [<!ENTITY n "web"><!ENTITY n "other">]><domain><name>&n;1</name></domain>`:                        "web1",
	`<!DOCTYPE d [<!ENTITY a "w&b;"><!ENTITY b "e&#98;">]><domain><name>&a;</name></domain>`:                       "web",
	"<!DOCTYPE d [\n<!ELEMENT domain ANY>\n<!ATTLIST domain a CDATA '>]'>\n<!NOTATION n SYSTEM 'x'><!-- ]> --><?p ]> " +
		"?>\n]>\n<domain><name>a</name></domain>": "a",
	`<!DOCTYPE d [<!ENTITY % p " "><!ENTITY n 'b'>%p;]><domain><name>a&n;</name></domain>`:                    "ab",
	`<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/shadow">]><domain><name>a&x;</name></domain>`:                "a&x;",
	`<!DOCTYPE d [<!ENTITY g PUBLIC "a" "b" NDATA n>]><domain><name>a</name></domain>`:                        "a",
	`<!DOCTYPE d SYSTEM 'd.dtd'><domain><name>&later;</name></domain>`:                                        "&later;",
	`<!DOCTYPE d [<!ENTITY e "<devices/>">]><domain><name>a</name>&e;</domain>`:                               "a",
	`<!DOCTYPE d [<!ENTITY q "4"><!ENTITY v "&#38;q;">]><domain><name>a&v;</name><vcpu>&q;</vcpu></domain>`:   "a4",
	`<!DOCTYPE d [<!ENTITY c "<![CDATA[x]]>">]><domain><name>a</name><description>&c;</description></domain>`: "a",
}

func TestDocumentTypes(t *testing.T) {
	for text, name := range documentTypes {
		d := parse(t, text)
		if d.String() != text {
			t.Errorf("%s came back as %s", text, d)
		}
		if got := d.Guest().Name; got != name {
			t.Errorf("%s: name %q, expected %q", text, got, name)
		}
	}
}

// TestEntitiesInValues: a value that an entity gives is read, and written plainly when it changes.
func TestEntitiesInValues(t *testing.T) {
	const text = `<!DOCTYPE d [<!ENTITY n "4">]><domain><vcpu>&n;</vcpu><devices><interface type="bridge"><model type="virtio"/><driver queues="&n;"/></interface></devices></domain>`
	d := parse(t, text)
	const path = "interface/0/driver.queues"
	if v, there, err := d.Get(path); v != "4" || !there || err != nil {
		t.Fatalf("queues read as %q %v %v", v, there, err)
	}
	set(t, d, path, "4")
	if d.String() != text {
		t.Errorf("the same value changed %s", d)
	}
	set(t, d, path, "2")
	if want := strings.Replace(text, `queues="&n;"`, `queues="2"`, 1); d.String() != want {
		t.Errorf("got %s", d)
	}
	set(t, d, path, "4")
	if d.String() != text {
		t.Errorf("back to %s", d)
	}
}

// TestHiddenElements: what an entity hides may be what would be made.
func TestHiddenElements(t *testing.T) {
	d := parse(t, `<!DOCTYPE d [<!ENTITY pins "<cputune/>">]><domain><vcpu>2</vcpu>&pins;</domain>`)
	var bad *PathError
	for _, err := range []error{d.Set("vcpupin/0", "1"), d.Delete("vcpupin/0"), d.Restore("vcpupin/0", "1", true)} {
		if !errors.As(err, &bad) || !strings.Contains(bad.Problem, "&pins;") {
			t.Errorf("error %v", err)
		}
	}
}

func TestEncodings(t *testing.T) {
	const text = "\ufeff<?xml version=\"1.0\" encoding=\"UTF-16\"?>\r\n<domain>\r\n  <name>caf\u00e9 " +
		"\U0001f600</name>\r\n  <vcpu>2</vcpu>\r\n</domain>\r\n"
	for _, c := range []charset{utf16LE, utf16BE} {
		for _, whole := range []string{text, strings.TrimPrefix(text, "\ufeff")} {
			d := parse(t, string(c.encode(whole)))
			if d.String() != string(c.encode(whole)) || d.Guest().Name != "caf\u00e9 \U0001f600" {
				t.Errorf("name %q", d.Guest().Name)
			}
			set(t, d, "emulatorpin", "0-1")
			want := strings.Replace(whole, "</vcpu>\r\n", "</vcpu>\r\n  <cputune>\r\n    <emulatorpin "+
				"cpuset='0-1'/>\r\n  </cputune>\r\n", 1)
			if got := d.text(); got != want || d.String() != string(c.encode(want)) {
				t.Errorf("edited to %q", got)
			}
		}
	}
	one := "<?xml version='1.0' encoding='KOI8-R'?><domain><name>\xc1b</name><title><![CDATA[\xc1&lt;]]></title></domain>"
	if d := parse(t, one); d.String() != one || d.Guest().Name != "\ufffdb" {
		t.Errorf("KOI8-R came back as %q, name %q", d, d.Guest().Name)
	}
	d := parse(t, "<?xml version='1.0' encoding='latin1'?><domain><name><![CDATA[caf\xe9 &amp;]]></name></domain>")
	if got := d.Guest().Name; got != "café &amp;" {
		t.Errorf("CDATA in ISO-8859-1 read as %q", got)
	}
}
