//go:build netns

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/plan"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestRoutedHost: a guest on a network of libvirt's shape is drawn to the uplink. The devices between are judged by
// what the host refuses, and what a plan changes there is applied, verified and rolled back.
func TestRoutedHost(t *testing.T) {
	if !inHost(t) {
		return
	}
	treetest.Guests(t, unix.LOCK_EX)
	h := &steered{t: t}
	for _, command := range []string{
		"link add nic0 type veth peer name far0", "link set nic0 address 02:00:00:00:00:01", "link set nic0 up",
		"link set far0 up", "addr add 10.9.0.1/24 dev nic0", "route add default via 10.9.0.2 dev nic0",
		"tuntap add tap9 mode tap", "link add virbr0 type bridge", "link set virbr0 up",
		"addr add 192.168.122.1/24 dev virbr0", "link set tap9 master virbr0", "link set tap9 up",
	} {
		h.must(append([]string{"ip"}, strings.Fields(command)...)...)
	}
	const forwarding, filter = "net.ipv4.conf.virbr0.forwarding", "net.ipv4.conf.nic0.rp_filter"
	for _, value := range []string{"net.ipv4.ip_forward=1", forwarding + "=0", "net.ipv4.conf.all.rp_filter=0",
		filter + "=1", "net.ipv4.conf.virbr0.rp_filter=0"} {
		h.must("sysctl", "-qw", value)
	}
	startNamed(t, "qemu-system-x86_64", "-name", "guest=web", "-smp", "1", "-netdev",
		"tap,id=n0,ifname=tap9,script=no,vhost=on", "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:09")

	// This machine may have guests of others too.
	drawn := h.mpps(outcome.CodeOK, "inspect")
	for part := range strings.SplitSeq(drawn, "\n\n") {
		if strings.Contains(part, " web ") {
			drawn = part
		}
	}
	must.Contain(t, drawn, "nic0", "forwards by its routes", "virbr0", "tap9", "web")
	must.Hold(t, !strings.Contains(drawn, "not judged"), "the path is judged:\n%s", drawn)
	stop := sendForeign(t, "far0")
	part := routesOf(t, h.mpps(outcome.CodeOK, "plan", "--pps", "1M", "--consent", "security", "--interval", "2s",
		"--runtime-only", "--json", "-o", "-"))
	stop()
	file := filepath.Join(t.TempDir(), "plan.json")
	must.Do(t, os.WriteFile(file, part, 0o600))
	// foreign: whoever applies the file has not seen what was refused
	h.mpps(outcome.CodeOK, "apply", "--yes", "--runtime-only", "--foreign", file)
	if values := h.must("sysctl", "-n", forwarding, filter); values != "1\n2\n" {
		t.Errorf("applied: %q, expected 1 and 2", values)
	}
	h.mpps(outcome.CodeOK, "verify")
	h.mpps(outcome.CodeOK, "rollback")
	if values := h.must("sysctl", "-n", forwarding, filter); values != "0\n1\n" {
		t.Errorf("rolled back: %q, expected 0 and 1", values)
	}
	h.nothingLeft()

	// the healthy twin: nothing is refused, nothing is wanted
	h.must("sysctl", "-qw", forwarding+"=1")
	var answer struct{ Result audit.Report }
	must.Do(t, json.Unmarshal([]byte(h.mpps(outcome.CodeOK, "audit", "--pps", "1M", "--interval", "1s", "--json")),
		&answer))
	for _, f := range answer.Result.Findings {
		if strings.HasPrefix(f.ID, "route.") && f.State == audit.Off {
			t.Errorf("healthy: %s at %s: %s", f.ID, f.Address, f.Why)
		}
	}
}

// routesOf returns a plan with its changes of family route alone: the others are of the whole kernel.
func routesOf(t *testing.T, text string) []byte {
	t.Helper()
	p, err := plan.Decode(strings.NewReader(text))
	must.Need(t, err == nil, "%v: %s", err, text)
	p.Changes = slices.DeleteFunc(p.Changes, func(c plan.Change) bool { return !strings.HasPrefix(c.ID, "route.") })
	must.Need(t, len(p.Changes) == 2, "expected changes of route.forwarding and route.rp_filter, found %+v", p.Changes)
	p.Seal()
	var out bytes.Buffer
	must.Do(t, plan.Encode(&out, p))
	return out.Bytes()
}

// startNamed starts a process with the name of a program that ends with the test.
func startNamed(t *testing.T, name string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must.Do(t, os.Symlink("/bin/sh", file))
	cmd := exec.Command(file, append([]string{"-c", "read -r line"}, args...)...)
	in := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
}

// sendForeign sends some thousand packets a second to the guest by a device, from an address that the host would answer
// by another one, until stop.
func sendForeign(t *testing.T, device string) (stop func()) {
	t.Helper()
	link := must.Get(net.InterfaceByName(device))(t)
	fd := must.Get(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0))(t)
	frame := make([]byte, 60)
	copy(frame, []byte{0x02, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0x02, 0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0,
		0, 192, 168, 122, 66, 192, 168, 122, 50})
	sum := headerSum(frame[14:34])
	frame[24], frame[25] = byte(sum>>8), byte(sum)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer unix.Close(fd)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			for range 8 {
				_ = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index})
			}
		}
	}()
	return func() { close(end); <-ended }
}
