//go:build netns

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab/labtest"
	"mpps/internal/must"
	"mpps/internal/owned"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// lacking runs a command with its own cache and run folder, much memory and without apt's settings, and then prints to
// its standard error what is left in these folders beside the lock of the cache, and mounts that were not there before.
const lacking = `mkdir -p /run/mpps-lab; mount -t tmpfs run /run/mpps-lab
mount -t tmpfs -o size=3g,mode=755 cache "$MPPS_LAB"
mount -t tmpfs apt /etc/apt
MEMORY=99999999
` + "%s" + `
echo "MemAvailable: $MEMORY kB" >$SCRATCH/meminfo
mount --bind $SCRATCH/meminfo /proc/meminfo
mount >$SCRATCH/mounts
code=0
"$@" || code=$?
ls -A "$MPPS_LAB" | grep -vx lock >&2 || true
find /run/mpps-lab -mindepth 1 >&2
mount | diff $SCRATCH/mounts - >&2 || true
exit $code`

// soon is how long a command may take to say what is lacking: 10 s, and as much again beside other programs.
const soon = 20 * time.Second

// TestLacking: what a machine lacks is an error in one line and a hint, soon, and nothing is left. Here are the
// commands; packages below internal/lab show more of what is found out.
func TestLacking(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // the kernel accepts
	t.Cleanup(func() { silent.Close() })
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, gone.Close())
	away := "MPPS_LAB_MIRROR=http://" + gone.Addr().String() + "/debian"
	for name, c := range map[string]lack{
		"disk": {prepare: `mount -t tmpfs -o size=64m,mode=755 small "$MPPS_LAB"`, says: "needs 2048 MiB", hint: "MPPS_LAB"},
		"a mirror that answers": {env: "MPPS_LAB_MIRROR=http://" + silent.Addr().String() + "/debian",
			says: "mirror does not answer", hint: "MPPS_LAB_MIRROR"},
		"a mirror": {env: away, says: "mirror does not answer", hint: "MPPS_LAB_MIRROR"},
		"a mirror that is a folder": {env: "MPPS_LAB_MIRROR=file:///nowhere", says: "mirror lacks trixie",
			hint: "MPPS_LAB_MIRROR"},
		"programs in its cache": {prepare: `mount -t tmpfs -o size=3g,mode=755,noexec none "$MPPS_LAB"`, says: "noexec or nodev",
			hint: "MPPS_LAB"},
		"a folder for its cache":       {env: "MPPS_LAB=/proc/cache", says: "no folder for the root tree", hint: "MPPS_LAB"},
		"a cache for root alone":       {prepare: `chmod 1777 "$MPPS_LAB"`, says: "other users can write", hint: "MPPS_LAB"},
		"a run folder":                 {prepare: "mount -o remount,ro /run/mpps-lab", says: "read-only", hint: "writable"},
		"a mirror among apt's sources": {says: "no Debian archive", hint: "MPPS_LAB_MIRROR"},
		"a mirror, after a build that was killed": {prepare: `mkdir -p "$MPPS_LAB/build-1/root/etc"`, env: away,
			says: "mirror does not answer", hint: "MPPS_LAB_MIRROR"},
		"a program": {env: "PATH=$SCRATCH/bin",
			prepare: "mkdir $SCRATCH/bin; ln -s $(command -v ip) $(command -v unshare) $SCRATCH/bin",
			says:    "missing packages: debootstrap", hint: "apt-get install"},
		"Debian's keys": {prepare: "mount -t tmpfs none /usr/share/keyrings", says: "missing packages: debian-archive-keyring",
			hint: "apt-get install"},
		"privileges": {before: []string{"setpriv", "--bounding-set", "-sys_admin"}, says: "not permitted",
			hint: "CAP_SYS_ADMIN"},
		"memory": {prepare: "MEMORY=3000000", says: "needs 6656 MiB of memory", hint: "mpps-lab list"},
		"memory for a process": {prepare: "ulimit -v 4000000", says: "needs 6656 MiB of memory.*ulimit -v",
			hint: "mpps-lab list"},
		"memory, and a state that cannot be read": {
			prepare: "MEMORY=3000000; mkdir /run/mpps-lab/$NAME; echo '{' >/run/mpps-lab/$NAME/state.json",
			says:    "needs 6656 MiB of memory", hint: "mpps-lab list"},
	} {
		for _, verb := range []string{"up", "demo"} {
			t.Run(verb+" without "+name, func(t *testing.T) {
				t.Parallel()
				c.test(t, verb)
			})
		}
	}
}

type lack struct {
	prepare    string
	env        string
	before     []string // of the command
	says, hint string
}

func (c lack) test(t *testing.T, verb string) {
	t.Helper()
	scratch, cache, out, temp := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	argv := slices.Concat([]string{"--mount", "--propagation", "private", "sh", "-euc", fmt.Sprintf(lacking, c.prepare),
		"lacking", "env", strings.ReplaceAll(c.env, "$SCRATCH", scratch)}, c.before, []string{labtest.Command(t), verb})
	if c.env == "" {
		argv = slices.DeleteFunc(argv, func(word string) bool { return word == "" })
	}
	if verb == "demo" {
		argv = append(argv, "--out", out)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", argv...)
	mark := "MPPS_TEST_LACKING=" + out
	cmd.Env = append(os.Environ(), "SCRATCH="+scratch, "MPPS_LAB="+cache, "TMPDIR="+temp,
		"MPPS_LAB_MIRROR=", "NAME="+map[string]string{"up": "default", "demo": "demo"}[verb], mark)
	var said, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &problems
	began := time.Now()
	err := owned.Run(cmd)
	took := time.Since(began)
	var exit *exec.ExitError
	must.Hold(t, errors.As(err, &exit) && slices.Contains([]int{1, 3}, exit.ExitCode()) && took < soon,
		"%v after %v", err, took)
	says(t, problems.String(), c.says, c.hint)
	left := must.Get(os.ReadDir(temp))(t)
	must.Hold(t, len(left) == 0 && len(marked(t, mark)) == 0, "left: files %v, processes %v", left, marked(t, mark))
}

// says requires an error and a hint in a line each, and nothing else, such as what is left.
func says(t *testing.T, text, why, hint string) {
	t.Helper()
	lines := regexp.MustCompile(`^mpps: error: .*` + why + `.*\nhint: .*` + hint + `.*\n$`)
	must.Hold(t, lines.MatchString(text), "expected an error, %q, and a hint, %q; found\n%s", why, hint, text)
}

// TestInterrupted: a demo that waits, here for a mirror, ends at once after Ctrl-C, in a line and a hint, and leaves
// nothing but its report.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	lack{env: "MPPS_LAB_MIRROR=http://" + silent.Addr().String() + "/debian", says: "interrupted",
		before: []string{"timeout", "--preserve-status", "--signal=INT", "2"}, hint: "report so far"}.test(t, "demo")
}

// TestDepsWithoutMirror: so does the script that installs what a lab needs, where nothing of it is installed.
func TestDepsWithoutMirror(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	dir := t.TempDir()
	sources, conf := filepath.Join(dir, "sources.list"), filepath.Join(dir, "apt.conf")
	must.Do(t, os.WriteFile(sources, fmt.Appendf(nil, "deb http://%[1]v/debian stable main\n"+
		"deb http://%[1]v/debian-security stable-security main\n", silent.Addr()), 0o644))
	must.Do(t, os.WriteFile(conf, fmt.Appendf(nil, "Dir::Etc::sourcelist %q;\nDir::Etc::sourceparts \"/dev/null\";\n"+
		"Dir::State %[2]q;\nDir::State::status \"/dev/null\";\nDir::Cache %[2]q;\n"+
		"Acquire::http::Proxy::127.0.0.1 \"DIRECT\";\n",
		sources, dir), 0o644))
	cmd := exec.CommandContext(t.Context(), "../../scripts/deps")
	cmd.Env = append(os.Environ(), "APT_CONFIG="+conf, "DPKG_ADMINDIR="+dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	err := owned.Run(cmd)
	took := time.Since(began)
	must.Hold(t, err != nil && took < soon, "%v after %v", err, took)
	first, rest, _ := strings.Cut(said.String(), "\n")
	must.Contain(t, first, "installing from Debian: debootstrap")
	says(t, rest, "no package mirror answers: what apt says is in /.*/out/deps.log", "apt's sources")
}

// TestMemoryBeforeTheBuild: 'make demo' finds out that memory is lacking before it installs and builds anything.
func TestMemoryBeforeTheBuild(t *testing.T) {
	t.Parallel()
	meminfo := filepath.Join(t.TempDir(), "meminfo")
	must.Do(t, os.WriteFile(meminfo, []byte("MemTotal:       8000000 kB\nMemAvailable:   3000000 kB\n"), 0o644))
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-euc",
		`mount --bind "$1" /proc/meminfo; cd ../..; unset MAKEFLAGS MAKELEVEL; exec make -s demo`, "demo", meminfo)
	var said, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &problems
	began := time.Now()
	err := owned.Run(cmd)
	took := time.Since(began)
	must.Hold(t, err != nil && took < soon, "%v after %v", err, took)
	text, _, _ := strings.Cut(problems.String(), "make: ***")
	must.Hold(t, said.Len() == 0, "built or installed: %s", said.String())
	says(t, text, "needs 6656 MiB of memory, found 2929 MiB", "mpps-lab list")
}

// marked returns the processes with a variable in their environment, and their names.
func marked(t *testing.T, variable string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, file := range must.Get(filepath.Glob("/proc/[0-9]*/environ"))(t) {
		if environ, err := os.ReadFile(file); err == nil && // or it has ended
			slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			found[filepath.Dir(file)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
