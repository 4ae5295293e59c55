package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// aptSource is an enabled binary source of apt, in either format (sources.list(5)).
type aptSource struct {
	URIs       []string
	Suites     []string
	Components []string
}

// parseSourcesList reads the one-line format: "deb [options] uri suite component...".
func parseSourcesList(text string) []aptSource {
	var out []aptSource
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "deb" {
			continue
		}
		f = f[1:]
		if strings.HasPrefix(f[0], "[") {
			end := slices.IndexFunc(f, func(s string) bool { return strings.HasSuffix(s, "]") })
			if end < 0 {
				continue
			}
			f = f[end+1:]
		}
		if len(f) < 2 {
			continue
		}
		out = append(out, aptSource{URIs: f[:1], Suites: f[1:2], Components: f[2:]})
	}
	return out
}

// parseDeb822 reads the stanza format of *.sources files.
func parseDeb822(text string) []aptSource {
	var out []aptSource
	fields := map[string][]string{}
	last := ""
	flush := func() {
		types := fields["types"]
		off := len(fields["enabled"]) > 0 && isNo(fields["enabled"][0])
		if slices.Contains(types, "deb") && !off && len(fields["uris"]) > 0 && len(fields["suites"]) > 0 {
			out = append(out, aptSource{fields["uris"], fields["suites"], fields["components"]})
		}
		fields, last = map[string][]string{}, ""
	}
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20) // an embedded key makes long stanzas, not long lines
	for sc.Scan() {
		line := strings.TrimRight(sc.Text(), " \t\r")
		switch {
		case line == "":
			flush()
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if last != "" {
				fields[last] = append(fields[last], strings.Fields(line)...)
			}
		default:
			key, value, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			last = strings.ToLower(strings.TrimSpace(key))
			fields[last] = strings.Fields(value)
		}
	}
	flush()
	return out
}

// isNo follows apt's StringToBool.
func isNo(s string) bool {
	return slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(s))
}

// readAptSources returns all enabled sources of the machine at root, in apt's order.
func readAptSources(root string) ([]aptSource, error) {
	var out []aptSource
	files := []string{filepath.Join(root, "etc/apt/sources.list")}
	for _, pat := range []string{"*.list", "*.sources"} {
		m, err := filepath.Glob(filepath.Join(root, "etc/apt/sources.list.d", pat))
		if err != nil {
			return nil, err
		}
		files = append(files, m...)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(f, ".sources") {
			out = append(out, parseDeb822(string(b))...)
		} else {
			out = append(out, parseSourcesList(string(b))...)
		}
	}
	return out, nil
}

// mirror returns the archive that also has the lab's suite: the one that this machine's release (codename in
// os-release) comes from, not its security or updates archives.
func mirror(sources []aptSource, codename string) (string, error) {
	for _, want := range []string{codename, suite, "stable", "testing", "oldstable"} {
		for _, s := range sources {
			if want == "" || !slices.Contains(s.Suites, want) || !slices.Contains(s.Components, "main") {
				continue
			}
			for _, uri := range s.URIs {
				u, err := url.Parse(uri)
				if err == nil && slices.Contains([]string{"http", "https", "file", "ftp"}, u.Scheme) {
					return strings.TrimSuffix(uri, "/"), nil
				}
			}
		}
	}
	return "", advise(fmt.Errorf("lab: no Debian archive for %q with component main among %d enabled apt sources",
		codename, len(sources)), "set MPPS_LAB_MIRROR to a Debian mirror")
}

// findMirror returns the mirror of the machine at root; MPPS_LAB_MIRROR overrides it.
func findMirror(root string) (string, error) {
	if m := os.Getenv("MPPS_LAB_MIRROR"); m != "" {
		return m, nil
	}
	sources, err := readAptSources(root)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "", err
	}
	return mirror(sources, osRelease(string(b), "VERSION_CODENAME"))
}

// osRelease returns a value of an os-release(5) file, unquoted.
func osRelease(text, key string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}
