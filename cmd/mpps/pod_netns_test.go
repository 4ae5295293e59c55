//go:build netns

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/audit"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/ops/handing"
)

// pidNamed waits for the child of a process that has a name, and returns its PID.
func pidNamed(t *testing.T, parent int, name string) int {
	t.Helper()
	for till := time.Now().Add(time.Minute); time.Now().Before(till); time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/task/" + strconv.Itoa(parent) + "/children")
		for _, child := range strings.Fields(string(text)) {
			if comm, _ := os.ReadFile("/proc/" + child + "/comm"); strings.TrimSpace(string(comm)) == name {
				pid, _ := strconv.Atoi(child)
				return pid
			}
		}
	}
	t.Fatalf("process %d has no child %s", parent, name)
	return 0
}

// TestGuestInPod: a QEMU below virt-launcher in its own network namespace is a guest of KubeVirt: inspect has its
// tap, audit judges it by its command line, and handover says what to patch. A process that only has QEMU's name keeps
// the audit from passing.
func TestGuestInPod(t *testing.T) {
	ns, folder := "mpod"+strconv.Itoa(os.Getpid()), t.TempDir()
	for dir := folder; dir != "/"; dir = filepath.Dir(dir) { // the user below must reach it
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o005 != 0o005 {
			must.Do(t, os.Chmod(dir, info.Mode().Perm()|0o055))
		}
	}
	run := func(argv ...string) string {
		t.Helper()
		stdout := succeeds(t, argv...)
		return stdout
	}
	run("ip", "netns", "add", ns)
	t.Cleanup(func() { run("ip", "netns", "del", ns) })
	tap, _, _ := openTap(t, "/run/netns/"+ns, "tap0")
	defer tap.Close()
	run("ip", "-n", ns, "link", "set", "tap0", "up")
	for _, name := range []string{"virt-launcher-monitor", "qemu-kvm"} {
		must.Do(t, os.Symlink("/bin/sh", filepath.Join(folder, name)))
	}
	start := func(cmd *exec.Cmd) {
		t.Helper()
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		must.Do(t, err)
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	}
	const arguments = " -c 'read -r line' -name guest=shop_web,debug-threads=on -smp 4 -cpu host -netdev " +
		"tap,fd=3,id=hostnet0 -device e1000,netdev=hostnet0,mac=02:00:00:00:00:01"
	launcher := exec.Command("ip", "netns", "exec", ns, filepath.Join(folder, "virt-launcher-monitor"), "-c",
		filepath.Join(folder, "qemu-kvm")+arguments+"; true")
	launcher.ExtraFiles = []*os.File{tap}
	start(launcher)
	pid := pidNamed(t, launcher.Process.Pid, "qemu-kvm")
	groups := filepath.Join(folder, "cgroup")
	must.Do(t, os.WriteFile(groups, []byte("0::/kubepods.slice/kubepods-pod7.slice/cri-containerd-8.scope\n"), 0o644))
	target := "/proc/" + strconv.Itoa(pid) + "/cgroup"
	must.Do(t, unix.Mount(groups, target, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(target, 0) })
	other := exec.Command(filepath.Join(folder, "qemu-kvm"), "-c", "read -r line", "-name", "guest=mine")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	start(other)

	var seen struct{ Result facts.Host }
	must.Do(t, json.Unmarshal([]byte(run("mpps", "--json", "inspect")), &seen))
	g := facts.Find(seen.Result.Guests, func(g *facts.Guest) bool { return g.PID == pid })
	if g == nil || g.Owner == nil || g.Owner.Platform != facts.KubeVirt || g.Owner.ID != "shop/web" || !g.Elsewhere ||
		len(g.Interfaces) != 1 || g.Interfaces[0].Tap != "tap0" {
		t.Fatalf("guests: %+v", seen.Result.Guests)
	}
	var judged struct{ Result audit.Report }
	must.Do(t, json.Unmarshal([]byte(run("mpps", "--json", "audit", "--pps", "1.8M")), &judged))
	models := facts.Where(judged.Result.Findings, func(f audit.Finding) bool {
		return f.ID == "domain.nic_model" && f.State == audit.Off && f.Address.Object() == "shop_web"
	})
	if len(models) != 1 {
		t.Errorf("its e1000 is not found: %+v", facts.Where(judged.Result.Findings, func(f audit.Finding) bool {
			return f.Address.Object() == "shop_web"
		}))
	}
	unseen := judged.Result.Coverage.Unseen
	if len(facts.Where(unseen, func(u facts.Unseen) bool { return u.Part == facts.UnseenProcess && u.Of == "mine" })) != 1 {
		t.Errorf("coverage: %+v", judged.Result.Coverage)
	}
	if code, _, _ := program(t, "mpps", "audit", "--pps", "1.8M", "--fail-on", "critical"); code != 4 {
		t.Errorf("beside a process that cannot be verified: exit code %d", code)
	}
	var words struct{ Result handing.Answer }
	must.Do(t, json.Unmarshal([]byte(run("mpps", "--json", "handover", "--pps", "1.8M", "--guest", "shop_web")),
		&words))
	must.Hold(t, len(words.Result.Guests) == 1 && len(words.Result.Guests[0].Words) == 1 &&
		strings.Contains(words.Result.Guests[0].Words[0].Text, "model: virtio"), "handover: %+v", words.Result.Guests)
}
