//go:build netns

package main

import (
	"bytes"
	"cmp"
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
	text.WriteString(h.state())
	for line := range strings.Lines(h.ip("netns")) { // /run/netns is this test's own
		ns := strings.Fields(line)[0]
		for _, argv := range [][]string{{"ls", "/sys/class/net"}, {"tc", "qdisc"},
			{"tc", "filter", "show", "dev", "eth0", "ingress"}, {"ip", "-o", "-4", "address"}, {"ip", "rule"},
			{"nft", "list", "ruleset"}} {
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
	fmt.Fprintln(&text, must.Get(filepath.Glob("/dev/shm/cyclictest*"))(h.t))
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

// killedProgram is a command of mpps that TestKilled kills.
type killedProgram struct {
	argv []string
	has  int // processes, at the least, when it is in full swing
	bpf  bool
	ends bool // it may have ended by itself, where the kill comes late
	// prepare returns more arguments, or what this machine lacks; nil: neither.
	prepare func(*testing.T) (argv []string, lack string)
}

// installed is for a command that starts another program.
func installed(name string) func(*testing.T) ([]string, string) {
	return func(t *testing.T) ([]string, string) {
		if _, err := exec.LookPath(name); err != nil && (name != "netperf" || !netperfOfLab(t)) {
			return nil, name + " is not installed"
		}
		return nil, ""
	}
}

func hasTimerlat(t *testing.T) (argv []string, lack string) {
	if tracers, err := os.ReadFile("/sys/kernel/tracing/available_tracers"); err != nil ||
		!slices.Contains(strings.Fields(string(tracers)), "timerlat") {
		return nil, "this kernel has no tracer timerlat"
	}
	return installed("rtla")(t)
}

func hasPktgen(*testing.T) (argv []string, lack string) {
	if _, err := os.Stat("/proc/net/pktgen"); err != nil {
		return nil, "this kernel has no pktgen"
	}
	return nil, ""
}

// planned is a plan for a value that no measurement depends on.
func (h *hostAndGuest) planned(t *testing.T) (argv []string, lack string) {
	return []string{"--plan", (&bridged{t: t, host: h.host}).plan("sysctl:net.ipv4.ip_default_ttl=63")}, ""
}

// killedPrograms are commands of each place that starts or makes something.
func (h *hostAndGuest) killedPrograms() map[string]killedProgram {
	forks := filepath.Join(h.t.TempDir(), "device")
	must.Do(h.t, os.WriteFile(forks,
		[]byte("#!/bin/sh\nsetsid sleep 300 &\nsh -c 'sleep 300 & sleep 300' &\nsleep 300\n"), 0o755))
	argv := func(words string, more ...string) []string { return append(strings.Fields(words), more...) }
	agent := []string{"--agent", h.agent, "--duration", "60s", "--keep=false"}
	ends := []string{"--from", "netns:" + h.host + "/tap0", "--to", "netns:" + h.guest + "/eth0", "--duration", "60s",
		"--keep=false"}
	modes := []string{"--mode", "native=" + h.agent + ",via=br0", "--mode", "other=" + h.agent + ",from=netns:" +
		h.newSecond() + "/eth0,guest-nic=eth0"}
	return map[string]killedProgram{
		"bench xdp":       {argv: argv("bench pps --via br0 --generator xdp", agent...), bpf: true},
		"bench af_packet": {argv: argv("bench pps --via br0 --generator af_packet", agent...)},
		"bench pktgen":    {argv: argv("bench pps --via br0 --generator pktgen", agent...), prepare: hasPktgen},
		"bench reverse":   {argv: argv("bench pps --via br0 --reverse", agent...)},
		"bench both ends": {argv: argv("bench pps", ends...), bpf: true},
		"bench of a plan": {argv: argv("bench pps --foreign --blocks 100 --rate 5k", ends...), has: 2,
			prepare: h.planned},
		"bench modes":      {argv: argv("bench modes --duration 1s --keep=false", modes...), bpf: true},
		"bench by iperf3":  {argv: argv("bench stream --engine iperf3", ends...), has: 3, prepare: installed("iperf3")},
		"bench by netperf": {argv: argv("bench rr --engine netperf", ends...), has: 3, prepare: installed("netperf")},
		"acceptance":       {argv: argv("acceptance modes --short -o /var/lib/report", modes...)},
		"tune": {argv: argv("tune --pps 2.5M --only netfilter.bridge --consent security --runtime-only --trial 200ms "+
			"--budget 2m --via br0 --agent", h.agent), bpf: true},
		"search":           {argv: argv("search --via br0 --keep=false --budget 2m --agent", h.agent)},
		"search's program": {argv: argv("search --max-pps 1M --keep=false --trial-command", forks), has: 6},
		"path":             {argv: argv("path --for 1m --every-packet"), bpf: true},
		"top":              {argv: argv("top --for 1m"), bpf: true},
		"diagnose":         {argv: argv("diagnose --for 1m"), bpf: true},
		"path of a netns":  {argv: argv("path --for 1m --netns", h.guest), bpf: true},
		"agent on its own": {argv: argv("agent --listen 127.0.0.1:0 --insecure-lab")},
		"stream of a file": {argv: argv("bench stream --sendfile", agent...)},
		"rr over UDP":      {argv: argv("bench rr --udp --rate 1k", agent...)},
		"crr":              {argv: argv("bench crr", agent...)},
		"watch":            {argv: argv("verify --watch --metrics 127.0.0.1:9909")},
		"latency":          {argv: argv("latency --cpu 1 --for 1m --runs 1 --tool own")},
		"latency by cyclictest": {argv: argv("latency --cpu 1 --for 1m --runs 1 --tool cyclictest"), has: 2,
			prepare: installed("cyclictest")},
		"latency by rtla": {argv: argv("latency --cpu 1 --for 1m --runs 1 --tool timerlat"), has: 2,
			prepare: hasTimerlat},
		"latency beside a program": {argv: argv("latency --cpu 1 --for 1m --runs 1 --tool own --load", forks),
			has: 6},
		"realtime check":    {argv: argv("realtime check --cpus 1 --for 60s")},
		"path about to end": {argv: argv("path --for 1s"), ends: true},
	}
}

// killedWithin is how long what was started may take to end, and what was changed to be put back, on a busy machine.
const killedWithin = 30 * time.Second

// TestKilled: whatever mpps does when it is killed, nothing that it started or made is left a moment later.
func TestKilled(t *testing.T) {
	if !inHost(t) {
		return
	}
	h := newHostAndGuest(t)
	for name, c := range h.killedPrograms() {
		t.Run(name, func(t *testing.T) {
			h.t = t
			if c.prepare != nil {
				more, lack := c.prepare(t)
				if lack != "" {
					t.Log("left out: " + lack) // a skipped part would have the whole test count as skipped
					return
				}
				c.argv = append(c.argv, more...)
			}
			// 0: in full swing
			for _, after := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 0} {
				h.kills(c, after)
			}
		})
	}
}

// kills starts a program, with a lock and a journal that nobody else has, kills it and requires that nothing is left.
func (h *hostAndGuest) kills(c killedProgram, after time.Duration) {
	h.t.Helper()
	const own = "mkdir -p /run/mpps && mount -t tmpfs lock /run/mpps && mount -t tmpfs journal /var/lib && " +
		`exec mpps "$@"`
	before := h.traces()
	cmd := exec.Command("ip", append([]string{"netns", "exec", h.host, "sh", "-c", own, "sh"}, c.argv...)...)
	cmd.Env = append(os.Environ(), killedMark+strconv.Itoa(os.Getpid()))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 100 * time.Millisecond
	must.Do(h.t, cmd.Start())
	time.Sleep(cmp.Or(after, 700*time.Millisecond))
	if after == 0 && !c.ends && !c.inSwing(h.t, cmd.Process.Pid) {
		h.t.Errorf("it has %d processes after a minute: %s", len(marked(h.t)), said.Bytes())
	}
	programs, links := openBPF(h.t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() && !c.ends {
		h.t.Fatalf("it ended before it was killed: %v: %s", cmd.ProcessState, said.Bytes())
	}
	killed := time.Now()
	for {
		left, now := inKernel(programs, links), h.traces()
		if left == 0 && now == before {
			break
		}
		if time.Since(killed) > killedWithin {
			for _, pid := range marked(h.t) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			h.t.Fatalf("%d programs and links of eBPF are left; there was\n%sand there is\n%s", left, before, now)
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.t.Logf("nothing left %v after it was killed", time.Since(killed).Round(time.Millisecond))
}

// inSwing waits until the program has all that it starts, for a minute at most.
func (c killedProgram) inSwing(t *testing.T, pid int) bool {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		programs, _ := openBPF(t, pid)
		if len(marked(t)) >= max(1, c.has) && (!c.bpf || len(programs) > 0) {
			return true
		}
	}
	return false
}
