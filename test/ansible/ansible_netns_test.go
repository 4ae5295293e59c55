//go:build netns

// Package ansible plays the collection of deploy/ansible over ssh against three hosts in namespaces.
package ansible

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

// fleet is three hosts, and a controller in a network namespace with them.
type fleet struct {
	*testing.T
	play  string // ansible-playbook
	dir   string
	hosts []string // process IDs of the hosts' first processes
}

func (f *fleet) must(argv ...string) string {
	f.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	must.Need(f, err == nil, "%s: %v\n%s", strings.Join(argv, " "), err, out)
	return string(out)
}

// on returns a shell script as a command on a host.
func (f *fleet) on(host int, script string) *exec.Cmd {
	return exec.Command("nsenter", "--all", "--root", "--wd=/", "--target", f.hosts[host], "sh", "-c", script)
}

// state returns what mpps could have changed on each host: values, configuration, journal.
func (f *fleet) state() (all []string) {
	f.Helper()
	for host := range f.hosts {
		out, err := f.on(host, "cd /proc/sys/net; { grep -rs . bridge ipv4/conf ipv6/conf core; "+
			"find /etc /var/lib/mpps -type f -exec sha256sum {} +; } | sort").Output()
		must.Need(f, err == nil, "%v\n%s", err, out)
		all = append(all, string(out))
	}
	return all
}

// differ returns the lines that only one of two states has, if they differ; empty if they do not.
func differ(before, now string) string {
	var all strings.Builder
	for sign, pair := range map[string][2]string{"-": {before, now}, "+": {now, before}} {
		for line := range strings.Lines(pair[0]) {
			if !strings.Contains(pair[1], line) {
				all.WriteString(sign + line)
			}
		}
	}
	return all.String()
}

// differences returns what differs between two states of all hosts.
func differences(before, now []string) string {
	var all strings.Builder
	for h := range now {
		fmt.Fprintf(&all, "host %d:\n%s", h+1, differ(before[h], now[h]))
	}
	return all.String()
}

// values returns a state without mpps's own directory, which keeps a journal of what was undone.
func values(state string) string {
	return regexp.MustCompile(`(?m)^.* /var/lib/mpps/.*\n`).ReplaceAllString(state, "")
}

// journal returns the transactions of a host with their states.
func (f *fleet) journal(host int) string {
	out, _ := f.on(host, "mpps history --json").CombinedOutput()
	return strings.Join(regexp.MustCompile(`"(kind|state)": ?"[a-z-]*"`).FindAllString(string(out), -1), " ")
}

// playbook runs a playbook, and returns its output and whether it succeeded.
func (f *fleet) playbook(args ...string) (string, bool) {
	f.Helper()
	inside := []string{"netns", "exec", "controller", f.play, "-i", f.dir + "/hosts"}
	cmd := exec.Command("ip", append(inside, args...)...)
	cmd.Env = append(os.Environ(), "ANSIBLE_COLLECTIONS_PATH="+f.dir, "ANSIBLE_HOME="+f.dir+"/home",
		"ANSIBLE_CONFIG="+f.dir+"/ansible.cfg", "ANSIBLE_SSH_CONTROL_PATH_DIR="+f.dir+"/c",
		"ANSIBLE_HOST_KEY_CHECKING=False", "ANSIBLE_TIMEOUT=3", "ANSIBLE_NOCOLOR=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.Fatal(err)
	}
	return string(out), err == nil
}

// rollout rolls the goal out.
func (f *fleet) rollout(args ...string) (string, bool) {
	f.Helper()
	return f.playbook(append([]string{"mpps.host.rollout", "-e", "mpps_confirm=20"}, args...)...)
}

var recap = regexp.MustCompile(`(?m)^host(\d) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)`)

// undoneAlready matches the undo of a batch that finds that the host has undone itself.
var undoneAlready = regexp.MustCompile(`(?m)^ok: \[host1\] => \(item=2`)

// changed returns how many tasks changed something on each host, which all must have succeeded.
func (f *fleet) changed(out string) string {
	f.Helper()
	var all []string
	for _, m := range recap.FindAllStringSubmatch(out, -1) {
		if m[3] != "0" || m[4] != "0" {
			f.Errorf("host %s failed", m[1])
		}
		all = append(all, m[2])
	}
	return strings.Join(all, " ")
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{T: t, play: os.Getenv("MPPS_ANSIBLE")}
	if f.play == "" {
		t.Skip("MPPS_ANSIBLE names no ansible-playbook: 'make test-ansible' installs one from PyPI and runs this test")
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		t.Skip("no /usr/sbin/sshd: install openssh-server")
	}
	f.dir = must.Get(os.MkdirTemp("", "mpps-ansible"))(t)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(f.dir)) })
	to := filepath.Join(f.dir, "ansible_collections/mpps/host")
	must.Do(t, os.CopyFS(to, os.DirFS("../../deploy/ansible")))
	must.Do(t, os.WriteFile(f.dir+"/ansible.cfg", nil, 0o644)) // not one of this user's
	f.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.dir+"/key")
	f.must("ip", "netns", "add", "controller")
	t.Cleanup(func() { f.must("ip", "netns", "del", "controller") })
	inside := []string{"ip", "-n", "controller"}
	f.must(append(inside, "link", "add", "lan", "type", "bridge")...)
	f.must(append(inside, "address", "add", "10.9.0.254/24", "dev", "lan")...)
	f.must(append(inside, "link", "set", "lan", "up")...)
	inventory := "[all:vars]\nansible_user=root\nansible_ssh_private_key_file=" + f.dir + "/key\n" +
		"ansible_ssh_common_args='-o UserKnownHostsFile=" + f.dir + "/known_hosts'\n" + // not this user's
		"ansible_python_interpreter=/usr/bin/python3\nmpps_binary=" + os.Getenv("MPPS_BIN") + "\n[all]\n"
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("host%d", n)
		f.must("ip", "netns", "add", name)
		t.Cleanup(func() { f.must("ip", "netns", "del", name) })
		f.must("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", "controller")
		f.must(append(inside, "link", "set", name, "master", "lan", "up")...)
		f.must("ip", "-n", name, "address", "add", fmt.Sprintf("10.9.0.%d/24", n), "dev", "eth0")
		f.must("ip", "-n", name, "link", "set", "eth0", "up")
		dir := filepath.Join(f.dir, name)
		must.Do(t, os.Mkdir(dir, 0o755))
		cmd := exec.Command("ip", "netns", "exec", name, "unshare", "--mount", "--pid", "--fork", "--kill-child",
			"--propagation", "private", "testdata/host", dir, f.dir+"/key.pub")
		log := must.Get(os.Create(dir + ".log"))(t)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must.Do(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		f.hosts = append(f.hosts, f.first(cmd.Process.Pid, dir+".log"))
		inventory += fmt.Sprintf("%s ansible_host=10.9.0.%d\n", name, n)
	}
	must.Do(t, os.WriteFile(f.dir+"/hosts", []byte(inventory), 0o644))
	return f
}

// first returns the first process of a host once its sshd listens.
func (f *fleet) first(unshare int, log string) string {
	f.Helper()
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
		if text, _ := os.ReadFile(log); strings.Contains(string(text), "Server listening") {
			return strings.TrimSpace(string(child))
		}
	}
	text, _ := os.ReadFile(log)
	f.Fatalf("sshd does not listen: %s", text)
	return ""
}

// TestAnsible plays the collection over ssh.
func TestAnsible(t *testing.T) {
	f := newFleet(t)
	for _, want := range []string{"[1-9]", "0"} { // of the second run: nothing
		out, ok := f.playbook("testdata/install.yml", "-e", `{"mpps_goal": {"pps": "1M"}}`)
		changes := regexp.MustCompile("^" + want + " " + want + " " + want + "$")
		must.Need(t, ok && changes.MatchString(f.changed(out)),
			"install: expected %s changes on each host\n%s", want, out)
	}
	before := f.state()
	unchanged := func(what, out string) {
		t.Helper()
		for now, h := f.state(), 0; h < len(now); h++ {
			if now[h] != before[h] {
				t.Errorf("%s: host %d changed: %s\n%s", what, h+1, differ(before[h], now[h]), out)
			}
		}
	}

	t.Run("check mode writes nothing", func(t *testing.T) {
		out, ok := f.rollout("--check", "--diff")
		if !ok || !regexp.MustCompile(`(?m)^\+sysctl:net.bridge.bridge-nf-call-iptables = 0$`).MatchString(out) ||
			!strings.HasPrefix(f.changed(out), "1 ") {
			t.Error(out)
		}
		unchanged("check mode", out)
	})

	t.Run("a canary that fails its gate", func(t *testing.T) {
		rival := f.on(0, "cd /proc/sys/net/bridge; while sleep 0.2 && [ ! -e /run/stop ]; do "+
			"grep -q 1 bridge-nf-call-iptables || echo 1 >bridge-nf-call-iptables; done")
		must.Do(t, rival.Start())
		out, ok := f.rollout()
		must.Do(t, f.on(0, ": >/run/stop").Run())
		_ = rival.Wait() // its last grep decides
		now := f.state()
		if ok || now[1] != before[1] || now[2] != before[2] || values(now[0]) != values(before[0]) {
			t.Errorf("%s\n%s", out, differences(before, now))
		}
		must.Contain(t, f.journal(0), `"apply"`)
		before[0] = now[0]
	})

	t.Run("a canary that is down", func(t *testing.T) {
		out, ok := f.rollout("-i", "testdata/down")
		must.Hold(t, !ok && strings.Contains(out, "unreachable: ") && strings.Contains(out, "did not pass its gate"),
			"%v", out)
		unchanged("the rollout", out)
	})

	t.Run("a cut connection", func(t *testing.T) {
		// once something is applied, nobody can log in for 26 s
		must.Do(t, f.on(0, `mv /usr/bin/mpps /usr/bin/mpps.real; cat >/usr/bin/mpps <<'END'
#!/bin/sh
mpps.real "$@"
code=$?
case "$*" in "apply --yes --confirm"*)
	: >/run/closed
	kill $(cat /run/sshd.pid)
	setsid sh -c 'sleep 26; rm /run/closed' </dev/null >/dev/null 2>&1 &
esac
exit $code
END
chmod 755 /usr/bin/mpps`).Run())
		out, ok := f.rollout()
		must.Do(t, f.on(0, "mv /usr/bin/mpps.real /usr/bin/mpps").Run())
		now := f.state()
		if ok || now[1] != before[1] || now[2] != before[2] || values(now[0]) != values(before[0]) ||
			!strings.Contains(out, "not confirmed") || !undoneAlready.MatchString(out) {
			t.Errorf("%s\n%s\n%s", out, f.journal(0), differences(before, now))
		}
		before[0] = now[0]
	})

	t.Run("a rollout", func(t *testing.T) {
		out, ok := f.rollout()
		must.Hold(t, ok && f.changed(out) == "1 1 1", "%v", out)
		for h, now := range f.state() {
			if !strings.Contains(now, "bridge-nf-call-iptables:0") {
				t.Errorf("host %d: %s", h+1, differ(before[h], now))
			}
		}
		time.Sleep(21 * time.Second) // what was not confirmed would be undone by now
		applied := f.state()
		out, ok = f.rollout()
		must.Hold(t, ok && f.changed(out) == "0 0 0", "the second run: %s", out)
		if again := f.state(); strings.Join(again, "") != strings.Join(applied, "") {
			t.Errorf("the second run changed %s", differences(applied, again))
		}
		if out, ok = f.playbook("testdata/rollback.yml"); !ok || f.changed(out) != "1 1 1" {
			t.Error(out)
		}
		for h, now := range f.state() {
			if values(now) != values(before[h]) {
				t.Errorf("after the rollback: %s", differ(before[h], now))
			}
		}
	})
}
