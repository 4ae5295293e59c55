//go:build netns

package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

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
		if json.Unmarshal(out, &answer) != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
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
					if is[name] != was[name] {
						t.Errorf("%v: root sees %s: %s, the account %s", argv, name, was[name], is[name])
					}
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
		if read != nil {
			t.Fatalf("no metrics: %v, %v: %s", read, err, out)
		}
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
	if len(was) == 0 || !slices.Equal(was, is) {
		t.Errorf("root publishes %q, the account %q", was, is)
	}
	if len(hidden) != len(without) {
		t.Errorf("unseen by root: %q, by the account: %q", without, hidden)
	}
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
