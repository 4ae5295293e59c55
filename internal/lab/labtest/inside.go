package labtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/must"
)

// insideLimit bounds a script in a guest: on a busy machine an emulated guest takes many times as long as alone.
const insideLimit = 3 * time.Minute

// Inside runs a shell script in a guest that has an agent (lab.GuestSpec.Agent), for insideLimit at most, and returns
// its output on both streams and its exit code.
func Inside(t testing.TB, l *lab.Lab, guest, script string) (string, int) {
	t.Helper()
	var started struct{ PID int }
	Agent(t, l, guest, map[string]any{"execute": "guest-exec", "arguments": map[string]any{"path": "sh",
		"arg": []string{"-c", "exec 2>&1\n" + script}, "capture-output": true}}, &started)
	for began := time.Now(); time.Since(began) < insideLimit; {
		var status struct {
			Exited   bool
			ExitCode int
			Out      string `json:"out-data"`
		}
		Agent(t, l, guest, map[string]any{"execute": "guest-exec-status",
			"arguments": map[string]any{"pid": started.PID}}, &status)
		if !status.Exited {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		raw := must.Get(base64.StdEncoding.DecodeString(status.Out))(t)
		return strings.TrimSpace(string(raw)), status.ExitCode
	}
	t.Fatalf("in the guest: %s: does not end within %v", script, insideLimit)
	return "", 0
}

// Agent sends a command to a guest's agent through virsh and reads the answer, within half a minute: the vCPUs of an
// emulated guest whose kernel sends packets have little time for anything else.
func Agent(t testing.TB, l *lab.Lab, guest string, command, into any) {
	t.Helper()
	text := must.Get(json.Marshal(command))(t)
	must.Do(t, os.WriteFile(filepath.Join(l.ShareDir(), "command.json"), text, 0o600))
	out, err := l.Must(context.WithoutCancel(t.Context()), `virsh -q qemu-agent-command `+guest+
		` --timeout 30 "$(cat /share/command.json)"`)
	if err != nil {
		recordDeath(l)
		state, _ := l.Must(context.WithoutCancel(t.Context()), "virsh -q qemu-monitor-command "+guest+
			" --hmp 'info registers -a' | grep -E '^(CPU#|RIP|CR0)'; tail -n 3 /run/lab/"+guest+".console; "+
			"ps -L -o tid=,stat=,psr=,time=,comm= -p $(cat /run/libvirt/qemu/"+guest+".pid)")
		t.Fatalf("%s: %v\nthe guest then:\n%s", text, err, state)
	}
	if err := json.Unmarshal([]byte(out), &struct{ Return any }{into}); err != nil {
		t.Fatalf("%s: %v: %s", text, err, out)
	}
}

// InNamespace returns the processes in a network namespace. The caller must hold it open: the kernel reuses the inode
// number of a namespace that is gone.
func InNamespace(t testing.TB, namespace *os.File) (pids []string) {
	t.Helper()
	want := must.Get(namespace.Stat())(t)
	links := must.Get(filepath.Glob("/proc/[0-9]*/ns/net"))(t)
	for _, link := range links {
		if is, err := os.Stat(link); err == nil && os.SameFile(is, want) {
			pids = append(pids, strings.Split(link, "/")[2])
		}
	}
	return pids
}
