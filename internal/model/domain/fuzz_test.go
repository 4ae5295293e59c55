package domain

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"mpps/internal/must"
)

// FuzzParse: what is accepted comes back byte for byte, is well-formed to encoding/xml as well, and can be read.
func FuzzParse(f *testing.F) {
	for _, text := range samples(f) {
		f.Add(string(text))
	}
	f.Add("<domain a='&#x41;'><!-- - --><?p ?><![CDATA[]]]]></domain >\n")
	for _, text := range documentTypes {
		f.Add(text)
	}
	f.Add(wide("\ufeff<domain><name>\U0001f600</name></domain>", binary.LittleEndian))
	f.Add("<?xml version='1.0' encoding='koi8-r'?><domain><name>\xc1</name></domain>")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			var bad *SyntaxError
			must.Need(t, errors.As(err, &bad) && bad.Line >= 1, "error %v", err)
			return
		}
		must.Need(t, d.String() == text, "came back as %q", d)
		// of these it knows less
		if err := wellFormed(text); err != nil && ascii(text) && !strings.Contains(text, "<!") &&
			!strings.Contains(text, "<?xml") {
			t.Fatalf("encoding/xml refuses it: %v", err)
		}
		d.Guest()
		for _, p := range d.Paths() {
			if _, there, _ := d.Get(p); !there {
				t.Fatalf("%s is listed but not there", p)
			}
		}
		if diff := Diff(d, d); len(diff) != 0 {
			t.Fatalf("differs from itself: %+v", diff)
		}
	})
}

func wellFormed(text string) error {
	dec := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	for {
		if _, err := dec.RawToken(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// ascii: encoding/xml has the name characters of an older edition of XML.
func ascii(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }

// FuzzSetRestore: random edits of any document, taken back, leave the same bytes. Without a text, one is made up from
// the seed.
func FuzzSetRestore(f *testing.F) {
	for _, text := range samples(f) {
		f.Add(string(text), uint64(1), uint8(8))
	}
	f.Add("", uint64(1), uint8(8))
	f.Fuzz(func(t *testing.T, text string, seed uint64, edits uint8) {
		if text == "" {
			text = randomDomain(seed)
		}
		if msg := shuffle(text, seed, int(edits%16)); msg != "" {
			t.Fatal(msg)
		}
	})
}

// FuzzSet: any path and value. What is taken reads back in canonical form from what was written; what is refused
// changes nothing.
func FuzzSet(f *testing.F) {
	for form, values := range wanted {
		f.Add(strings.Replace(form, "*", "0", 1), values[1])
	}
	text := sample(f, "libvirt-realtime.xml").String()
	f.Fuzz(func(t *testing.T, path, value string) {
		d := parse(t, text)
		canon, err := d.Check(path, value)
		if serr := d.Set(path, value); (serr == nil) != (err == nil) {
			t.Fatalf("check says %v, set says %v", err, serr)
		}
		if err != nil {
			must.Need(t, d.String() == text, "refused and changed")
			return
		}
		again := parse(t, d.String())
		if got, there, err := again.Get(path); got != canon || !there || err != nil {
			t.Fatalf("set to %q, reads %q %v %v", canon, got, there, err)
		}
		if twice, err := again.Check(path, canon); twice != canon || err != nil {
			t.Fatalf("canonical form %q becomes %q (%v)", canon, twice, err)
		}
	})
}

// FuzzParseSet: the canonical form of a set is a fixed point.
func FuzzParseSet(f *testing.F) {
	f.Add("0-3,8,^2")
	f.Fuzz(func(t *testing.T, s string) {
		set, err := ParseSet(s)
		if err != nil {
			return
		}
		again, err := ParseSet(FormatSet(set))
		if err != nil || FormatSet(again) != FormatSet(set) {
			t.Fatalf("%q becomes %q becomes %q (%v)", s, FormatSet(set), FormatSet(again), err)
		}
	})
}
