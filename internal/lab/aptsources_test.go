package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestParseSources(t *testing.T) {
	oneLine := parseSourcesList(`# a comment
deb http://a.example/debian bookworm main contrib # tail
deb-src http://a.example/debian bookworm main
deb [arch=amd64 signed-by=/x.gpg] https://b.example/debian/ bookworm-updates main
deb [ arch=amd64 trusted=yes ] https://c.example/debian sid main
deb broken
deb [never closed http://d.example x main
`)
	want := []aptSource{
		{[]string{"http://a.example/debian"}, []string{"bookworm"}, []string{"main", "contrib"}},
		{[]string{"https://b.example/debian/"}, []string{"bookworm-updates"}, []string{"main"}},
		{[]string{"https://c.example/debian"}, []string{"sid"}, []string{"main"}},
	}
	must.NoDiff(t, cmp.Diff(want, oneLine), "difference")
	stanzas := parseDeb822(`Types: deb deb-src
# a comment in between
URIs: http://a.example/debian
  http://b.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 x
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

types: deb-src
uris: http://src.example/debian
suites: bookworm
`)
	want = []aptSource{{[]string{"http://a.example/debian", "http://b.example/debian"},
		[]string{"bookworm", "bookworm-updates"}, []string{"main"}}}
	must.NoDiff(t, cmp.Diff(want, stanzas), "difference")
}

func TestMirror(t *testing.T) {
	security := aptSource{[]string{"http://m.example/debian-security"}, []string{"bookworm-security"}, []string{"main"}}
	cdrom := aptSource{[]string{"cdrom:[Debian]/"}, []string{"bookworm"}, []string{"main"}}
	other := aptSource{[]string{"http://o.example/pkg"}, []string{"nodistro"}, []string{"main"}}
	debian := aptSource{[]string{"http://m.example/debian/"}, []string{"bookworm", "bookworm-updates"},
		[]string{"main"}}
	stable := aptSource{[]string{"https://s.example/debian"}, []string{"stable"}, []string{"main"}}
	for _, c := range []struct {
		name, want string
		sources    []aptSource
	}{
		{"the release's own", "http://m.example/debian", []aptSource{security, cdrom, other, debian, stable}},
		{"by another name", "https://s.example/debian", []aptSource{security, stable}},
		{"none", "", []aptSource{security, cdrom, other}},
	} {
		got, err := mirror(c.sources, "bookworm")
		must.Hold(t, got == c.want && (err == nil) == (c.want != ""),
			"%s: found %q, %v, want %q", c.name, got, err, c.want)
	}
}

func TestFindMirrorReadsBothFormats(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/os-release":                         "ID=debian\nVERSION_CODENAME=\"bookworm\"\n",
		"etc/apt/sources.list":                   "deb http://sec.example/s bookworm-security main\n",
		"etc/apt/sources.list.d/x.list.disabled": "deb http://no.example/debian bookworm main\n",
		"etc/apt/sources.list.d/debian.sources": "Types: deb\nURIs: http://yes.example/debian\nSuites: " +
			"bookworm\nComponents: main\n",
		"etc/apt/sources.list.d/node.sources.save": "Types: deb\nURIs: http://no.example/debian\nSuites: " +
			"bookworm\nComponents: main\n",
	} {
		p := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must.Do(t, os.WriteFile(p, []byte(text), 0o644))
	}
	t.Setenv("MPPS_LAB_MIRROR", "")
	if got, err := findMirror(root); err != nil || got != "http://yes.example/debian" {
		t.Errorf("found %q, %v", got, err)
	}
}

func FuzzParseSources(f *testing.F) {
	f.Add("deb [a=b] http://x y main\n")
	f.Add("Types: deb\nURIs: x\n y\nSuites: z\n\n: :\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, src := range append(parseSourcesList(s), parseDeb822(s)...) {
			must.Hold(t, len(src.URIs) != 0 && len(src.Suites) != 0, "half a source: %+v", src)
		}
	})
}
