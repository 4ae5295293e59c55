//go:build netns

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
)

// printed returns what docs/acceptance.md prints for an experiment: the commands of its first block, and those that
// stand in its prose.
func printed(t *testing.T, experiment string) (block, prose [][]string) {
	t.Helper()
	page := string(must.Get(os.ReadFile("../../docs/acceptance.md"))(t))
	_, section, found := strings.Cut(page, "\n## "+experiment+":")
	if !found {
		t.Fatalf("the page has no section on %s", experiment)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	before, rest, _ := strings.Cut(section, "```sh\n")
	text, after, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatalf("the section on %s has no commands", experiment)
	}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line, _, _ = strings.Cut(line, " #")
		for command := range strings.SplitSeq(line, " && ") {
			block = append(block, strings.Fields(command))
		}
	}
	for i, words := range strings.Split(before+after, "`") {
		if i%2 == 1 && strings.HasPrefix(words, "mpps ") {
			prose = append(prose, strings.Fields(words))
		}
	}
	return block, prose
}

// TestAcceptanceQueuesAsPrinted plays the sequence of the page with a namespace in the guest's place: its commands make
// the tunnel's other end, and the command for that form measures. Only what makes it short is added.
func TestAcceptanceQueuesAsPrinted(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	block, prose := printed(t, "queues")
	at := slices.IndexFunc(prose, func(argv []string) bool { return slices.Contains(argv, "--container") })
	if at < 0 {
		t.Fatal("the page prints no command without a guest")
	}
	// The machine of the page: two ports, cabled to each other, one under the tunnel to the guest's bridge.
	h := newHostAndGuest(t)
	h.ip("-n", h.host, "link", "del", "tap0")
	for _, argv := range []string{
		"link add ens1f0 numtxqueues 8 numrxqueues 8 type veth peer name ens1f1 numtxqueues 8 numrxqueues 8",
		"link set ens1f0 up", "address add 192.0.2.1/24 dev ens1f0", "address add 10.60.0.1/24 dev br0",
		"link add vxlan0 type vxlan id 5 dstport 4789 remote 192.0.2.2 local 192.0.2.1 dev ens1f0",
		"link set vxlan0 master br0 up",
		"link add tap0 numtxqueues 4 numrxqueues 4 type veth peer name eth0 numtxqueues 4 numrxqueues 4 netns " + h.guest,
		"link set tap0 master br0 up",
	} {
		h.ip(append([]string{"-n", h.host}, strings.Fields(argv)...)...)
	}
	h.ip("-n", h.guest, "address", "add", "10.60.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "1450", "up")
	h.startAgent(t, "10.60.0.2:7878")

	made := 0
	for _, argv := range block {
		switch {
		case argv[0] != "ip": // the measurement with a guest
			continue
		case argv[1] == "netns" && argv[2] == "add":
			h.ip(argv[1:]...)
			t.Cleanup(func() { h.ip("netns", "del", argv[3]) })
		case argv[1] == "-n":
			h.ip(argv[1:]...)
		default:
			h.ip(append([]string{"netns", "exec", h.host}, argv...)...)
		}
		made++
	}
	if made < 5 {
		t.Fatalf("%d commands of the page make the other end: %q", made, block)
	}
	dir := filepath.Join(t.TempDir(), "report")
	argv := append([]string{"ip", "netns", "exec", h.host}, prose[at]...)
	code, stdout, stderr := program(t, append(argv, "-o", dir, "--short", "--sink", "af_packet")...)
	p := must.Get(accept.Open(dir))(t)
	r := p.Last("queues")
	if r == nil || code != outcome.CodeOK || r.State != acceptance.Done {
		t.Fatalf("%q: exit code %d: %s%s", argv, code, stdout, stderr)
	}
	o := must.Get(accept.Outcomes(r))(t)
	if carried, have := acceptance.TapQueues(o.Paths["met"]); carried < 2 || have != 4 {
		t.Errorf("%d of %d queues carried packets", carried, have)
	}
	for _, f := range r.Figures {
		if f.Measured == nil || f.Measured.Value <= 0 {
			t.Errorf("%s: %+v", f.ID, f.Measured)
			continue
		}
		t.Logf("%s: %.4g %s, %s", f.What, f.Measured.Value, f.Unit, f.State)
	}
}
