//go:build netns

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/change/journal"
	"mpps/internal/must"
)

// attacker is a user of the host without any rights.
const attacker = 4242

// asAttacker runs a program as a user without rights, and returns its output and exit code.
func asAttacker(t *testing.T, argv ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: attacker, Gid: attacker}}
	cmd.Env, cmd.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// ownHost gives the test's process a /run and a /var/lib of its own, and returns mpps at a place that everybody can
// reach.
func ownHost(t *testing.T) (binary string) {
	t.Helper()
	text := must.Get(os.ReadFile(os.Getenv("MPPS_BIN")))(t) // it may be below one of these
	for _, dir := range []string{"/run", "/var/lib", "/tmp"} {
		mode := "mode=755"
		if dir == "/tmp" {
			mode = "mode=1777"
		}
		must.Do(t, unix.Mount("own", dir, "tmpfs", 0, mode))
	}
	must.Do(t, os.Mkdir("/run/mpps-test", 0o755))
	binary = "/run/mpps-test/mpps"
	must.Do(t, os.WriteFile(binary, text, 0o755))
	return binary
}

// privately runs the test in its own child with namespaces, and reports whether this is the child.
func privately(t *testing.T) bool {
	t.Helper()
	const mark = "MPPS_TEST_PRIVATE"
	if os.Getenv(mark) == t.Name() {
		must.Do(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestUnprivilegedChangesNothing: a user of the host neither changes it through mpps, nor ends the time to confirm, nor
// holds the lock, nor writes what root's mpps believes.
func TestUnprivilegedChangesNothing(t *testing.T) {
	if !privately(t) {
		return
	}
	mpps := ownHost(t)
	dir := must.Get(journal.Open("/"))(t)
	lock := must.Get(dir.Lock("test"))(t)
	must.Do(t, lock.Release())
	must.Do(t, os.MkdirAll("/var/lib/mpps/journal", 0o755))
	state := map[string]string{"/var/lib/mpps/desired.json": "[]", "/var/lib/mpps/effects.json": "{}",
		"/var/lib/mpps/tune-waiting.json": "{}", "/run/mpps/restore.json": "{}", "/run/mpps/holder": ""}
	for name, text := range state {
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
	for _, argv := range [][]string{{"apply", "--yes", "--pps", "1M"}, {"rollback", "--all", "--yes"}, {"confirm"},
		{"restore"}, {"restore", "--expired"}, {"sriov", "create", "lo", "--vfs", "1"}, {"apply", "--resume", "--yes"},
		{"path", "--steer"}, {"tune", "--resume"}} {
		if out, code := asAttacker(t, append([]string{mpps}, argv...)...); code == 0 || strings.Contains(out, "goroutine ") {
			t.Errorf("mpps %v: exit code %d: %s", argv, code, out)
		}
	}
	for _, script := range []string{
		"exec 9</run/mpps/lock; flock -n 9", "exec 9>>/run/mpps/lock",
		"echo x >/run/mpps/holder", "echo x >/var/lib/mpps/desired.json", "mv /run/mpps/holder /run/mpps/x",
		"echo x >/var/lib/mpps/journal/20260101T000000-000000.jsonl", "ln -s /etc/passwd /var/lib/mpps/runs",
		"mkdir /run/mpps-watch", "mkdir /var/lib/mpps/vfs",
	} {
		if out, code := asAttacker(t, "sh", "-c", script); code == 0 {
			t.Errorf("%s: it succeeded: %s", script, out)
		}
	}
	// Whoever can open a file can lock it: that of the holder is read by everybody, and is not the lock.
	held := exec.Command("flock", "-x", "/run/mpps/holder", "sleep", "30")
	held.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: attacker, Gid: attacker}}
	must.Do(t, held.Start())
	defer func() { _ = held.Process.Kill(); _ = held.Wait() }()
	time.Sleep(200 * time.Millisecond)
	lock, err := dir.Lock("test")
	must.Need(t, err == nil, "a user keeps root from the lock: %v", err)
	must.Do(t, lock.Release())
}

// TestUnprivilegedPlants: what a user leaves in /tmp before root writes there neither gets the output nor leads it
// elsewhere.
func TestUnprivilegedPlants(t *testing.T) {
	if !privately(t) {
		return
	}
	mpps := ownHost(t)
	must.Do(t, os.WriteFile("/run/victim", []byte("root:*"), 0o600))
	must.Do(t, os.Mkdir("/run/victims", 0o755))
	plant := `ln -s /run/victim /tmp/a.json; mkfifo /tmp/b.json; : >/tmp/c.json; chmod 666 /tmp/c.json
ln -s /run/victims /tmp/quiet; mkdir -m 777 /tmp/mine; ln -s /run/victims /tmp/acceptance; ln -s /run/victim /tmp/m.prom`
	if out, code := asAttacker(t, "sh", "-ec", plant); code != 0 {
		t.Fatal(out)
	}
	run := func(argv ...string) (string, int) {
		cmd := exec.Command(mpps, argv...)
		cmd.Dir = "/tmp"
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, file := range []string{"/tmp/a.json", "/tmp/b.json", "/tmp/c.json"} {
		if out, code := run("snapshot", "-o", file); code != 0 {
			t.Errorf("%s: %s", file, out)
			continue
		}
		info := must.Get(os.Lstat(file))(t)
		if !info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s is %v of user %d", file, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		}
	}
	for _, argv := range [][]string{
		{"export", "tuned", "--pps", "1M", "--name", "quiet", "-o", "/tmp"},
		{"export", "tuned", "--pps", "1M", "--name", "mine", "-o", "/tmp"},
	} {
		if out, code := run(argv...); code == 0 || !strings.Contains(out, "somebody else made it") {
			t.Errorf("%v: exit code %d: %s", argv, code, out)
		}
	}
	if out, code := run("verify", "--watch", "--for", "1s", "--metrics", "/tmp/m.prom"); strings.Contains(out,
		"goroutine ") {
		t.Errorf("the watch: exit code %d: %s", code, out)
	}
	if text := must.Get(os.ReadFile("/run/victim"))(t); string(text) != "root:*" {
		t.Errorf("the victim holds %.60q", text)
	}
	must.Empty(t, must.Get(os.ReadDir("/run/victims"))(t), "written through a link")
}

// TestUnprivilegedState: state of another user is refused where it is read, with every verb that reads it.
func TestUnprivilegedState(t *testing.T) {
	if !privately(t) {
		return
	}
	mpps := ownHost(t)
	must.Do(t, os.MkdirAll("/var/lib/mpps", 0o755))
	for name, argv := range map[string][]string{
		"effects.json":      {"tune", "--pps", "1k", "--trial-command", "/bin/false", "--max-pps", "1k"},
		"tune-waiting.json": {"tune", "--resume"},
		"desired.json":      {"restore"},
	} {
		file := filepath.Join("/var/lib/mpps", name)
		must.Do(t, os.WriteFile(file, []byte(`{"schema":"x","flags":{"trial-command":["/bin/touch /run/owned"]}}`), 0o666))
		must.Do(t, os.Chown(file, attacker, attacker))
		out, err := exec.Command(mpps, argv...).CombinedOutput()
		must.Hold(t, err != nil && strings.Contains(string(out), fmt.Sprintf("belongs to user %d", attacker)),
			"%v: %v: %s", argv, err, out)
		must.Do(t, os.Remove(file))
	}
	must.Fail(os.Stat("/run/owned"))(t, "a program of the attacker's was run")
}

// reading are the capabilities that commands need which look and change nothing: files that only root can read, the
// descriptors and threads of other users' processes, and the rules of netfilter.
const reading = "-all,+dac_read_search,+sys_ptrace,+net_admin"

// TestReadsWithoutRoot: an unprivileged account with three capabilities sees what root sees of a host without guests:
// the same findings of audit, nothing more that diagnose --counters could not see, and the same status.
func TestReadsWithoutRoot(t *testing.T) {
	dir := must.Get(os.MkdirTemp("", "mpps-capabilities"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile(os.Getenv("MPPS_BIN"))
	binary := filepath.Join(dir, "mpps")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(binary, text, 0o755)
	}
	must.Do(t, err)
	script := `set -eu
ip link set lo up
ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
nft add table inet t
nft 'add chain inet t c { type filter hook forward priority 0; }'
nft add rule inet t c ct state invalid drop
exec "$@"`
	run := func(as []string, argv ...string) map[string]any {
		t.Helper()
		argv = append(append(as, binary), argv...)
		cmd := exec.Command("unshare", append([]string{"--net", "sh", "-c", script, "sh"}, argv...)...)
		out, err := cmd.Output()
		var answer struct{ Result map[string]any }
		must.Need(t, json.Unmarshal(out, &answer) == nil, "%v: %v: %s", argv, err, out)
		return answer.Result
	}
	user := []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", reading,
		"--inh-caps", reading, "--ambient-caps", reading, "--no-new-privs"}
	for _, argv := range [][]string{{"audit", "--pps", "1.8M", "--json"}, {"status", "--json"},
		{"diagnose", "--counters", "--for", "1s", "--json"}, {"verify", "--json"},
		{"top", "--once", "--counters", "--json"}} {
		root, own := run(nil, argv...), run(user, argv...)
		for _, kind := range []string{"findings", "unseen", "rows"} {
			was, is := named(root[kind]), named(own[kind])
			if !maps.Equal(was, is) {
				for name := range was {
					must.Hold(t, is[name] == was[name],
						"%v: root sees %s: %s, the account %s", argv, name, was[name], is[name])
				}
				t.Errorf("%v: root has %d %s, the account %d", argv, len(was), kind, len(is))
			}
			if argv[0] == "audit" && kind == "findings" && len(was) < 50 {
				t.Errorf("only %d findings", len(was))
			}
		}
		if was, is := slices.Sorted(maps.Keys(root)), slices.Sorted(maps.Keys(own)); !slices.Equal(was, is) {
			t.Errorf("%v: root gets %v, the account %v", argv, was, is)
		}
	}
}

// TestWatchWithoutRoot: with the capabilities of its unit and no others, the watch sees of this host what root's sees:
// it publishes the same metrics, and reports the same parts as unseen.
func TestWatchWithoutRoot(t *testing.T) {
	if !privately(t) {
		return
	}
	mpps := ownHost(t)
	unit := must.Get(os.ReadFile("../../deploy/systemd/mpps-watch.service"))(t)
	_, rest, _ := strings.Cut(string(unit), "\nAmbientCapabilities=")
	rest, _, _ = strings.Cut(rest, "\n")
	caps := "-all"
	for _, c := range strings.Fields(rest) {
		caps += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	user := []string{"setpriv", "--reuid", "65000", "--regid", "65000", "--clear-groups", "--bounding-set", caps,
		"--inh-caps", caps, "--ambient-caps", caps, "--no-new-privs"}
	watch := func(as []string, file string) (names, unseen []string) {
		t.Helper()
		// The file is removed at the end: a second name keeps what was published first.
		script := `"$@" & for i in $(seq 100); do ln -f "$F" "$F.kept" 2>/dev/null && break; sleep 0.1; done; wait`
		argv := append(append([]string{"-c", script, "sh"}, as...), mpps, "verify", "--watch", "--for", "3s", "--json",
			"--metrics", file)
		cmd := exec.Command("sh", argv...)
		cmd.Env = append(os.Environ(), "F="+file)
		out, err := cmd.Output()
		text, read := os.ReadFile(file + ".kept")
		must.Need(t, read == nil, "no metrics: %v, %v: %s", read, err, out)
		for line := range strings.Lines(string(text)) {
			if name, _, _ := strings.Cut(line, " "); !strings.HasPrefix(line, "#") {
				names = append(names, name)
			}
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "unseen") {
				unseen = append(unseen, line)
			}
		}
		return names, unseen
	}
	must.Do(t, os.MkdirAll("/run/mpps-watch", 0o777))
	must.Do(t, os.Chmod("/run/mpps-watch", 0o777))
	was, without := watch(nil, "/run/mpps-watch/root.prom")
	is, hidden := watch(user, "/run/mpps-watch/own.prom")
	must.Hold(t, len(was) != 0 && slices.Equal(was, is), "root publishes %q, the account %q", was, is)
	must.Hold(t, len(hidden) == len(without), "unseen by root: %q, by the account: %q", without, hidden)
}

// named returns what a list of an answer says of each value: its state, and what was found if that does not move.
func named(list any) map[string]string {
	all := map[string]string{}
	items, _ := list.([]any)
	for _, item := range items {
		one, _ := item.(map[string]any)
		text, _ := json.Marshal([]any{one["id"], one["address"], one["what"], one["why"]})
		state, _ := json.Marshal(one["state"])
		all[string(text)] = string(state)
	}
	return all
}
