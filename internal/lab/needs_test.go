package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnoughDisk(t *testing.T) {
	if err := enoughDisk("/cache", treeBytes); err != nil {
		t.Errorf("just enough: %v", err)
	}
	err := enoughDisk("/cache", treeBytes-1)
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || hint.Hint() == "" {
		t.Fatalf("one byte short: found %v, expected an error with a hint", err)
	}
	if want := "lab: the root tree needs 2048 MiB in /cache, found 2047 MiB free"; err.Error() != want {
		t.Errorf("found %q, expected %q", err, want)
	}
}

// oneLine checks that an error is a line and has a hint.
func oneLine(t *testing.T, err error) {
	t.Helper()
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || hint.Hint() == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("found %v, expected a line and a hint", err)
	}
}

func TestEnoughMemory(t *testing.T) {
	const meminfo = "MemTotal:       24683524 kB\nMemAvailable:   %d kB\n"
	if err := enoughMemory(fmt.Sprintf(meminfo, (6144+besideMiB)<<10), 6144); err != nil {
		t.Errorf("just enough: %v", err)
	}
	err := enoughMemory(fmt.Sprintf(meminfo, (6144+besideMiB)<<10-1), 6144)
	oneLine(t, err)
	if want := "lab: a host of 6144 MiB needs 6656 MiB of memory, found 6655 MiB available"; err == nil ||
		err.Error() != want {
		t.Errorf("found %v, expected %q", err, want)
	}
	if err := enoughMemory("MemTotal: 1 kB\n", 1024); err == nil {
		t.Error("no MemAvailable: found no error")
	}
}

func TestCheckMirror(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debian/dists/"+suite+"/Release" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer served.Close()
	for _, mirror := range []string{served.URL + "/debian", served.URL + "/debian/", "file:///srv/debian"} {
		if err := checkMirror(t.Context(), mirror, nil); err != nil {
			t.Errorf("%s: %v", mirror, err)
		}
	}
	if err := checkMirror(t.Context(), "http://mirror.invalid/debian",
		[]string{"http_proxy=" + served.URL}); err != nil {
		t.Errorf("by apt's proxy: %v", err)
	}
	oneLine(t, checkMirror(t.Context(), served.URL+"/ubuntu", nil))
	gone := httptest.NewServer(nil)
	gone.Close()
	oneLine(t, checkMirror(t.Context(), gone.URL+"/debian", nil))
}

func TestDamagedTree(t *testing.T) {
	cache := t.TempDir()
	whole := &Tree{Dir: treeDir(cache), Release: "6.12"}
	if _, err := OpenTree(cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no tree: %v", err)
	}
	files := []string{whole.loader("")[0], whole.loader("usr/bin/qemu-system-x86_64")[3],
		whole.loader("usr/libexec/virtiofsd")[3], whole.Kernel(), filepath.Join(whole.Dir, stamp)}
	for _, file := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte("{}"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenTree(cache); err != nil {
		t.Errorf("whole: %v", err)
	}
	for _, file := range files {
		if err := os.Rename(file, file+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenTree(cache); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %v", file, err)
		}
		if err := os.Rename(file+".away", file); err != nil {
			t.Fatal(err)
		}
	}
}
