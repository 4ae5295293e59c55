package initramfs

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestPrograms: a machine's own shell comes with its loader and libraries, each once and where they are looked for.
func TestPrograms(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	loader, libraries, err := dependencies(sh)
	must.Need(t, err == nil && loader != "" && slices.Contains(libraries, "libc.so.6"),
		"%s: loader %q, libraries %v: %v", sh, loader, libraries, err)
	libc, err := libraryIn("/", "libc.so.6")
	if err != nil {
		t.Skip("neither Debian nor RHEL: ", err)
	}
	var b bytes.Buffer
	c := newWriter(&b)
	must.Do(t, c.Programs("/", []string{strings.TrimPrefix(sh, "/")}))
	must.Do(t, c.close())
	froms := map[string]int{}
	for _, f := range must.Get(withLibraries("/", []string{strings.TrimPrefix(sh, "/")}))(t) {
		froms[f.from]++
		must.Equal(t, froms[f.from], 1, "copies of %s", f.from)
	}
	for _, name := range []string{"bin/" + filepath.Base(sh), filepath.Dir(libc), libc, filepath.Dir(loader), loader} {
		must.Equal(t, bytes.Count(b.Bytes(), []byte(name+"\x00")) > 0, true, "%s is in the archive", name)
	}
	must.Fail(withLibraries(t.TempDir(), []string{"usr/bin/netserver"}))(t, "a root without the program was accepted")
}
