package domain

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// suite gives the samples and, where MPPS_LIBVIRT_TESTS points to the folder tests of libvirt's source, every domain in
// it.
func suite(t *testing.T) map[string][]byte {
	t.Helper()
	all := samples(t)
	folder := os.Getenv("MPPS_LIBVIRT_TESTS")
	if folder == "" {
		return all
	}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".xml") {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // a link that leads nowhere
			return nil
		}
		if root := rootName(text); root == "domain" {
			all[path] = text
		}
		return err
	})
	must.Need(t, err == nil && len(all) >= 1000,
		"found %d domains below %s (%v), expected more than 1000", len(all), folder, err)
	return all
}

func rootName(text []byte) string {
	dec := xml.NewDecoder(bytes.NewReader(text))
	for {
		switch tok, err := dec.RawToken(); {
		case err != nil:
			return ""
		default:
			if e, is := tok.(xml.StartElement); is {
				return e.Name.Local
			}
		}
	}
}

// TestSuite: every domain is read, comes back byte for byte, and `queues` changes nothing but what it names.
func TestSuite(t *testing.T) {
	edited := 0
	for name, text := range suite(t) {
		d, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		must.Hold(t, bytes.Equal(d.Bytes(), text), "%s comes back otherwise", name)
		edits, err := d.Apply([]Change{{Path: "interface/*/driver.queues", Value: "4"}}, nil, Host{})
		if err != nil {
			continue
		}
		edited++
		before, after := withoutQueues(t, text), withoutQueues(t, d.Bytes())
		if !slices.Equal(before, after) {
			t.Errorf("%s: more than queues changed\n%s", name,
				lineDiff(strings.Join(before, "\n"), strings.Join(after, "\n")))
		}
		for _, e := range edits {
			if got, _, err := parse(t, d.String()).Get(e.Path); got != "4" || err != nil {
				t.Errorf("%s: %s reads %q (%v)", name, e.Path, got, err)
			}
			must.Succeed(t, d.Restore(e.Path, e.From, e.HasFrom), "%s", name)
		}
		if !bytes.Equal(d.Bytes(), text) {
			t.Errorf("%s does not come back:\n%s", name, lineDiff(string(text), d.String()))
		}
	}
	must.Hold(t, edited >= 5, "edited %d domains, expected at least 5", edited)
}

// withoutQueues is the canonical form of a document, without queues of <driver> and without drivers that say nothing
// else. White space between elements counts only where there is more than that.
func withoutQueues(t *testing.T, text []byte) []string {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	var out []string
	var path []string
	for {
		tok, err := dec.RawToken()
		if err == io.EOF {
			return out
		}
		must.Do(t, err)
		switch x := tok.(type) {
		case xml.StartElement:
			path = append(path, x.Name.Local)
			attrs := slices.DeleteFunc(slices.Clone(x.Attr), func(a xml.Attr) bool {
				return x.Name.Local == "driver" && a.Name.Local == "queues" && slices.Contains(path, "interface")
			})
			slices.SortFunc(attrs, func(a, b xml.Attr) int {
				return strings.Compare(fmt.Sprint(a.Name), fmt.Sprint(b.Name))
			})
			out = append(out, fmt.Sprint("<", x.Name, attrs))
		case xml.EndElement:
			if n := len(out); x.Name.Local == "driver" && slices.Contains(path, "interface") &&
				out[n-1] == fmt.Sprint("<", x.Name, []xml.Attr{}) {
				out = out[:n-1]
			} else {
				out = append(out, fmt.Sprint("</", x.Name))
			}
			path = path[:len(path)-1]
		case xml.CharData:
			if s := strings.TrimSpace(string(x)); s != "" {
				out = append(out, s)
			}
		default:
			out = append(out, fmt.Sprintf("%s", x))
		}
	}
}
