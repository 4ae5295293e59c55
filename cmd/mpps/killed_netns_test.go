//go:build netns

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"mpps/internal/must"
)

// killedMark is in the environment of a program that is to be killed, and so in that of all that it starts.
const killedMark = "MPPS_TEST_KILLED="

// marked returns the processes with the mark; a zombie has none.
func marked(t *testing.T) (pids []int) {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/[0-9]*/environ"))(t)
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !slices.ContainsFunc(bytes.Split(environ, []byte{0}),
			func(v []byte) bool { return string(v) == killedMark+strconv.Itoa(os.Getpid()) }) {
			continue // it has ended, or is another's
		}
		if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// traces is what a program that was killed could leave on the host, in the guest and around both.
func (h *hostAndGuest) traces() string {
	h.t.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, "processes", marked(h.t))
	fmt.Fprintln(&text, h.ip("netns"))
	for _, ns := range []string{h.host, h.guest} {
		text.WriteString(h.state())
		for _, argv := range [][]string{{"tc", "qdisc"}, {"tc", "filter", "show", "dev", "eth0", "ingress"},
			{"ip", "-o", "-4", "address"}, {"ip", "rule"}, {"nft", "list", "ruleset"}} {
			_, stdout, _ := program(h.t, append([]string{"ip", "netns", "exec", ns}, argv...)...)
			fmt.Fprintln(&text, ns, argv, stdout)
		}
		for pid := range strings.FieldsSeq(h.ip("netns", "pids", ns)) {
			if number, err := strconv.Atoi(pid); err == nil {
				programs, links := openBPF(h.t, number)
				fmt.Fprintln(&text, ns, pid, "holds the programs", programs, "and the links", links)
			}
		}
	}
	for _, file := range []string{"/proc/self/mounts", "/proc/net/dev"} {
		lines := must.Get(os.ReadFile(file))(h.t)
		for line := range strings.Lines(string(lines)) {
			if strings.HasPrefix(line, "nsfs /run/netns/") {
				continue // ip netns has told of ours; another test's end here too, when it unlinks their files
			}
			name, _, _ := strings.Cut(line, ":") // without the counters of a device
			fmt.Fprintln(&text, name)
		}
	}
	must.Do(h.t, filepath.WalkDir("/sys/fs/bpf", func(path string, _ os.DirEntry, err error) error {
		fmt.Fprintln(&text, path)
		return err
	}))
	return text.String()
}

// inKernel counts those programs and links of eBPF that the kernel still has.
func inKernel(programs, links []int) (left int) {
	for _, id := range programs {
		if p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
			p.Close()
			left++
		}
	}
	for _, id := range links {
		if l, err := link.NewFromID(link.ID(id)); err == nil {
			l.Close()
			left++
		}
	}
	return left
}

// TestKilled: whatever mpps does when it is killed, nothing of it is left 5 s later.
func TestKilled(t *testing.T) {
	if !inHost(t) {
		return
	}
	forks := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(forks, []byte("#!/bin/sh\nsetsid sleep 300 &\nsh -c 'sleep 300 & sleep 300' &\nsleep 300\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	h := newHostAndGuest(t)
	bench := []string{"bench", "pps", "--via", "br0", "--agent", h.agent, "--duration", "20s", "--keep=false"}
	for name, c := range map[string]struct {
		argv []string
		has  int // processes, at the least, when it is in full swing
		bpf  bool
	}{
		"bench xdp":       {argv: append(bench[:len(bench):len(bench)], "--generator", "xdp"), bpf: true},
		"bench af_packet": {argv: append(bench[:len(bench):len(bench)], "--generator", "af_packet")},
		"bench reverse":   {argv: append(bench[:len(bench):len(bench)], "--reverse")},
		"bench both ends": {argv: []string{"bench", "pps", "--from", "netns:" + h.host + "/tap0", "--to", "netns:" +
			h.guest + "/eth0", "--duration", "20s", "--keep=false"}, bpf: true},
		"search": {argv: []string{"search", "--via", "br0", "--agent", h.agent, "--keep=false", "--budget", "30s"}},
		"search's program": {argv: []string{"search", "--trial-command", forks, "--max-pps", "1M", "--keep=false"},
			has: 6},
		"path":             {argv: []string{"path", "--for", "1m", "--every-packet"}, bpf: true},
		"top":              {argv: []string{"top", "--for", "1m"}, bpf: true},
		"diagnose":         {argv: []string{"diagnose", "--for", "1m"}, bpf: true},
		"path of a netns":  {argv: []string{"path", "--for", "1m", "--netns", h.guest}, bpf: true},
		"agent on its own": {argv: []string{"agent", "--listen", "127.0.0.1:0", "--insecure-lab"}},
		"stream of a file": {argv: []string{"bench", "stream", "--agent", h.agent, "--duration", "20s", "--sendfile",
			"--keep=false"}},
		"rr over UDP": {argv: []string{"bench", "rr", "--agent", h.agent, "--duration", "20s", "--udp", "--rate", "1k",
			"--keep=false"}},
		"crr":     {argv: []string{"bench", "crr", "--agent", h.agent, "--duration", "20s", "--keep=false"}},
		"watch":   {argv: []string{"verify", "--watch", "--metrics", "127.0.0.1:9909"}},
		"latency": {argv: []string{"latency", "--cpu", "1", "--for", "1m", "--runs", "1", "--tool", "own"}},
		"latency beside a program": {argv: []string{"latency", "--cpu", "1", "--for", "1m", "--runs", "1", "--tool", "own",
			"--load", forks}, has: 6},
		"realtime check":    {argv: []string{"realtime", "check", "--cpus", "1", "--for", "20s"}},
		"path about to end": {argv: []string{"path", "--for", "1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			// 0: in full swing
			for _, after := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 0} {
				h.t = t
				before := h.traces()
				cmd := exec.Command("ip", append([]string{"netns", "exec", h.host, "mpps"}, c.argv...)...)
				cmd.Env = append(os.Environ(), killedMark+strconv.Itoa(os.Getpid()))
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				cmd.WaitDelay = 100 * time.Millisecond
				must.Do(t, cmd.Start())
				var programs, links []int
				if after > 0 {
					time.Sleep(after)
					programs, links = openBPF(t, cmd.Process.Pid)
				} else {
					time.Sleep(700 * time.Millisecond)
					for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
						programs, links = openBPF(t, cmd.Process.Pid)
						if has := len(marked(t)); has >= max(1, c.has) && (!c.bpf || len(programs) > 0) {
							break
						}
						if time.Now().After(until) {
							t.Errorf("it has %d processes, the programs %v and the links %v after a minute: %s",
								len(marked(t)), programs, links, said.Bytes())
							break
						}
					}
				}
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
					t.Fatalf("it ended before it was killed: %v: %s", cmd.ProcessState, said.Bytes())
				}
				killed := time.Now()
				for {
					left, now := inKernel(programs, links), h.traces()
					if left == 0 && now == before {
						break
					}
					if time.Since(killed) > 30*time.Second {
						for _, pid := range marked(t) {
							_ = syscall.Kill(pid, syscall.SIGKILL)
						}
						t.Fatalf("%d programs and links of eBPF are left; there was\n%sand there is\n%s", left, before,
							now)
					}
					time.Sleep(50 * time.Millisecond)
				}
				t.Logf("nothing left %v after it was killed", time.Since(killed).Round(time.Millisecond))
			}
		})
	}
}
