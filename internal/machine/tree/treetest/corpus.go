package treetest

import (
	"archive/tar"
	"compress/bzip2"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mpps/internal/must"
)

// EachTopology runs a test on the tree of every recorded machine: those of a folder of the tree, and those of
// MPPS_CORPUS.
func EachTopology(t *testing.T, folder string, test func(t *testing.T, root string)) {
	t.Helper()
	archives := must.Get(filepath.Glob(filepath.Join(folder, "*.tar.bz2")))(t)
	if corpus := os.Getenv("MPPS_CORPUS"); corpus != "" {
		archives = append(archives, must.Get(filepath.Glob(filepath.Join(corpus, "topology", "*.tar.bz2")))(t)...)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.bz2")
		t.Run(name, func(t *testing.T) { test(t, Unpack(t, archive)) })
	}
	if len(archives) == 0 {
		t.Error("no recorded machine, not even those of the tree")
	}
}

// aside matches folders of many files that tests on whole recorded machines do not need.
var aside = regexp.MustCompile(`/(pci[^/]*|cpufreq|cpuidle|power|thermal_throttle|microcode|acpi_cppc)/`)

// Unpack extracts a recorded machine and returns the root of its tree.
func Unpack(tb testing.TB, archive string) string {
	tb.Helper()
	packed := must.Get(os.Open(archive))(tb)
	defer packed.Close()
	folder, top := tb.TempDir(), ""
	reader := tar.NewReader(bzip2.NewReader(packed))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(folder, top)
		}
		if err != nil || !filepath.IsLocal(header.Name) {
			tb.Fatalf("%s: %q: %v", archive, header.Name, err)
		}
		target := filepath.Join(folder, header.Name)
		top, _, _ = strings.Cut(filepath.Clean(header.Name), "/")
		if aside.MatchString(header.Name) {
			continue
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(target, 0o755)
		case tar.TypeSymlink:
			err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.Symlink(header.Linkname, target))
		case tar.TypeReg:
			text, readErr := io.ReadAll(reader)
			err = errors.Join(readErr, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, text, 0o644))
		}
		must.Do(tb, err)
	}
}
