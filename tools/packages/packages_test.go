package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCommands: commands are told from flags, examples and sentences.
func TestCommands(t *testing.T) {
	t.Parallel()
	help := `mpps inspects.

  mpps inspect          an example

Usage:
  mpps [command]

Look:
  inspect     this host
  sriov-x     more

Flags:
  -h, --help   help
`
	if got := commandsIn(help); !slices.Equal(got, []string{"inspect", "sriov-x"}) {
		t.Errorf("found %q", got)
	}
}

// TestPage: what begins a line of a help is no request of roff, and the same page has the same bytes.
func TestPage(t *testing.T) {
	t.Parallel()
	s := stager{to: t.TempDir(), at: time.Unix(0, 0).UTC()}
	page := s.page("mpps-x", []string{"x"}, "Does it. More.\n.so /etc/passwd\n'x \\n\n")
	for _, want := range []string{`.TH MPPS\-X 1 "1970-01-01"`, "\n\\&.so /etc/passwd\n", "\n\\&'x \\en", `mpps\-x \- Does it`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("expected %q in %s", want, page)
		}
	}
	for range 2 {
		if err := s.compressed("a.gz", page); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(filepath.Join(s.to, "a.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, page) || r.Name != "" || !r.ModTime.IsZero() {
		t.Errorf("%q %v %q %v", text, err, r.Name, r.ModTime)
	}
}

// TestShort: a licence that every Debian system has is named, and what surrounds it stays.
func TestShort(t *testing.T) {
	t.Parallel()
	full := "   Apache License\n  Version 2.0\n ...\n END OF TERMS AND CONDITIONS\n"
	got := string(short([]byte("a\n" + full + "\nNotice\n" + full + "MIT\n")))
	const named = "Apache License, Version 2.0: the text is in /usr/share/common-licenses/Apache-2.0\n"
	if want := "a\n" + named + "\nNotice\n" + named + "MIT\n"; got != want {
		t.Errorf("found %q", got)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// need skips a test where a program of Debian is not installed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed: see scripts/deps", p)
		}
	}
}

// built returns a folder with the packages of this machine's architecture.
func built(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("MPPS_PACKAGES"); dir != "" { // of an earlier build
		return dir
	}
	dir := t.TempDir()
	t.Setenv("ARCHS", strings.TrimSpace(run(t, "go", "env", "GOHOSTARCH")))
	run(t, "../../scripts/packages", dir)
	return dir
}

func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// TestPackages builds twice and compares; installs, removes and purges the deb in a scratch root, and the rpm; and asks
// lintian and rpmlint.
func TestPackages(t *testing.T) {
	need(t, "dpkg", "dpkg-deb", "rpm", "unshare")
	if os.Geteuid() != 0 {
		t.Skip("dpkg and rpm install as root only, in a scratch root too")
	}
	first := built(t)
	if os.Getenv("MPPS_PACKAGES") == "" {
		second := built(t)
		sums := func(dir string) string {
			text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		if a, b := sums(first), sums(second); a != b || strings.Count(a, "\n") < 3 {
			t.Errorf("two builds differ:\n%s\n%s", a, b)
		}
	}
	deb, rpm := one(t, first, "*_"+arch(t)+".deb"), one(t, first, "*.rpm")
	t.Run("deb", func(t *testing.T) { debLife(t, deb) })
	t.Run("rpm", func(t *testing.T) { rpmLife(t, rpm) })
	t.Run("lintian", func(t *testing.T) {
		need(t, "lintian")
		run(t, "lintian", "--fail-on", "error", "--allow-root", "--suppress-tags", "dir-or-file-in-opt", deb)
	})
	t.Run("rpmlint", func(t *testing.T) {
		need(t, "rpmlint")
		run(t, "rpmlint", "--config", "../../deploy/packages/rpmlint.toml", rpm)
	})
}

func arch(t *testing.T) string { return strings.TrimSpace(run(t, "dpkg", "--print-architecture")) }

// listing returns the files below a root that are not the package manager's own.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, name)
		if strings.HasPrefix(rel, "var/lib/dpkg") || strings.HasPrefix(rel, "var/lib/rpm") ||
			strings.HasPrefix(rel, "bin") || strings.HasPrefix(rel, "lib") || strings.HasPrefix(rel, "usr/lib/sysimage") ||
			strings.HasPrefix(rel, "root/.rpmdb") { // Debian's rpm
			return nil
		}
		if err == nil && !d.IsDir() {
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// scratch returns a root with the folders that dpkg and rpm expect.
func scratch(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/rpm"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available", "diversions", "statoverride"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// dpkg runs dpkg on a scratch root.
func dpkg(t *testing.T, root string, args ...string) string {
	return run(t, "dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--no-triggers",
		"--log=/dev/null"}, args...)...)
}

// wanted are files that both packages have.
var wanted = []string{"usr/bin/mpps", "usr/lib/systemd/system/mpps-restore.service", "etc/mpps/site.yaml",
	"usr/lib/systemd/system/mpps-watch.service", "usr/share/bash-completion/completions/mpps",
	"usr/share/man/man1/mpps.1.gz", "usr/share/man/man1/mpps-sriov-list.1.gz", "usr/share/doc/mpps/mpps.cdx.json",
	"usr/share/mpps/prometheus/mpps.rules.yml"}

func has(t *testing.T, files []string) {
	t.Helper()
	for _, f := range wanted {
		if !slices.Contains(files, f) {
			t.Errorf("%s is missing", f)
		}
	}
}

// debLife unpacks a deb, installs it without its scripts, changes a file of its configuration, removes and purges it.
func debLife(t *testing.T, deb string) {
	root := scratch(t)
	bare := filepath.Join(t.TempDir(), "bare.deb")
	withoutScripts(t, deb, bare)
	dpkg(t, root, "--install", bare)
	has(t, listing(t, root))
	if version := run(t, filepath.Join(root, "usr/bin/mpps"), "version"); !strings.Contains(version, "0.") {
		t.Errorf("version %q", version)
	}
	site := filepath.Join(root, "etc/mpps/site.yaml")
	changed := []byte("- {id: memory.thp, leave: true, reason: \"ours\"}\n")
	if err := os.WriteFile(site, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg(t, root, "--force-confold", "--install", bare) // an upgrade
	if text, err := os.ReadFile(site); err != nil || !bytes.Equal(text, changed) {
		t.Errorf("an upgrade changed the configuration: %q %v", text, err)
	}
	dpkg(t, root, "--remove", "mpps")
	if left := listing(t, root); !slices.Equal(left, []string{"etc/mpps/site.yaml"}) {
		t.Errorf("after a removal: %q", left)
	}
	dpkg(t, root, "--purge", "mpps")
	if left := listing(t, root); len(left) > 0 {
		t.Errorf("after a purge: %q", left)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/mpps")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("after a purge: /etc/mpps is there")
	}
}

// withoutScripts repacks a deb without its maintainer scripts, which would run with the host's programs.
func withoutScripts(t *testing.T, deb, to string) {
	t.Helper()
	dir := t.TempDir()
	run(t, "dpkg-deb", "--raw-extract", deb, dir)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text, err := os.ReadFile(filepath.Join(dir, "DEBIAN", script))
		if err != nil || !bytes.HasPrefix(text, []byte("#!/bin/sh\n")) {
			t.Errorf("%s: %.20q %v", script, text, err)
		}
		if err := os.Remove(filepath.Join(dir, "DEBIAN", script)); err != nil {
			t.Error(err)
		}
	}
	run(t, "dpkg-deb", "--root-owner-group", "-Znone", "--build", dir, to)
}

// rpmLife installs and removes an rpm.
func rpmLife(t *testing.T, rpm string) {
	root := scratch(t)
	run(t, "rpm", "--root", root, "--nodeps", "--noscripts", "--ignorearch", "--nosignature", "-i", rpm)
	has(t, listing(t, root))
	run(t, "rpm", "--root", root, "--nodeps", "--noscripts", "-e", "mpps")
	if left := listing(t, root); len(left) > 0 {
		t.Errorf("after a removal: %q", left)
	}
}

// TestScripts: what maintainer scripts do without systemd, in a mount namespace with a /var/lib of its own.
func TestScripts(t *testing.T) {
	need(t, "unshare", "mount")
	if os.Geteuid() != 0 {
		t.Skip("a mount namespace of its own needs root")
	}
	for _, c := range []struct{ made, script, arg, left, says string }{
		{"journal/x", "postremove", "purge", "no", ""},
		{"desired.json", "postremove", "purge", "yes", "stays"},
		{"journal/x", "postremove", "remove", "yes", ""},
		{"journal/x", "postremove", "upgrade", "yes", ""},
		{"desired.json", "preremove", "remove", "yes", "mpps rollback"},
		{"desired.json", "preremove", "upgrade", "yes", ""},
		{"desired.json", "preremove", "1", "yes", ""},
		{"journal/x", "postinstall", "configure", "yes", ""},
	} {
		text := run(t, "unshare", "--mount", "--propagation", "private", "sh", "-ec",
			`mount -t tmpfs none /var/lib; mount -t tmpfs none /run; mkdir -p "$(dirname "/var/lib/mpps/$1")"; : > "/var/lib/mpps/$1"
			"$2" "$3"; if [ -e /var/lib/mpps ]; then echo left=yes; else echo left=no; fi`,
			"sh", c.made, "../../deploy/packages/"+c.script, c.arg)
		if !strings.Contains(text, "left="+c.left) || !strings.Contains(text, c.says) ||
			c.says == "" && strings.Contains(text, "mpps:") {
			t.Errorf("%s %s with %s: %s", c.script, c.arg, c.made, text)
		}
	}
}
