//go:build netns

package main

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/audit"
	"mpps/internal/must"
)

// TestAuditCountsOverAnInterval: a tap that nobody empties drops packets. What depends on losses is unknown at first
// sight, judged with the counters of an interval, and in order where nothing is lost while mpps watches, whatever was
// lost before.
func TestAuditCountsOverAnInterval(t *testing.T) {
	ns := "ma" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(time.Now().UnixNano()%1e5))
	run := func(argv ...string) string {
		t.Helper()
		stdout := succeeds(t, argv...)
		return stdout
	}
	run("ip", "netns", "add", ns)
	t.Cleanup(func() { run("ip", "netns", "del", ns) })
	for _, which := range []string{"all", "default"} { // the kernel's own packets would be dropped there too
		run("ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv6.conf."+which+".disable_ipv6=1")
	}
	tap, send, drain := openTap(t, "/run/netns/"+ns, "tap9")
	defer tap.Close()
	run("ip", "-n", ns, "link", "set", "tap9", "txqueuelen", "10", "up")

	look := func(more ...string) audit.Finding {
		t.Helper()
		answer := run(append([]string{"ip", "netns", "exec", ns, "mpps", "--json", "audit", "--pps", "1M"}, more...)...)
		var got struct{ Result audit.Report }
		must.Do(t, json.Unmarshal([]byte(answer), &got))
		for _, f := range got.Result.Findings {
			if f.ID == "nic.txqueuelen" && strings.Contains(f.Address.Path, "tap9") {
				return f
			}
		}
		t.Fatalf("no finding of the tap in %.300s", answer)
		return audit.Finding{}
	}
	must.Do(t, send(100))
	if f := look(); f.State != audit.Unknown || !strings.Contains(f.Why, "--interval") {
		t.Errorf("without an interval: %s, %s", f.State, f.Why)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(5 * time.Millisecond):
				// Of 15 frames the queue takes 10: the guest keeps up but for its bursts.
				drain()
				if err := send(15); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	under := look("--interval", "500ms")
	close(stop)
	must.Do(t, <-done)
	must.Hold(t, under.State == audit.Off && under.Wanted == "at least 2000" &&
		strings.Contains(under.Why, "packets were dropped before it over "),
		"under load: %s, wanted %q: %s", under.State, under.Wanted, under.Why)
	if f := look("--interval", "300ms"); f.State != audit.OK || !strings.Contains(f.Why, "nothing was dropped over ") {
		t.Errorf("after the load: %s, %s", f.State, f.Why)
	}
}

// openTap makes a tap in a namespace, which lasts as long as the file is open, and functions that send frames into it
// and that take out all it holds.
func openTap(t *testing.T, namespace, name string) (tap *os.File, send func(frames int) error, drain func()) {
	t.Helper()
	socket := -1
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread goes with its namespace
		failed <- func() error {
			ns, err := os.Open(namespace)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			taken := make([]byte, 128)
			drain = func() {
				for err := error(nil); err == nil; {
					_, err = unix.Read(fd, taken)
				}
			}
			tap = os.NewFile(uintptr(fd), "tap")
			request, err := unix.NewIfreq(name)
			if err != nil {
				return err
			}
			request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
				return err
			}
			socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			return err
		}()
	}()
	must.Do(t, <-failed)
	t.Cleanup(func() { unix.Close(socket) })
	frame := make([]byte, 60)
	copy(frame, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}) // for local experiments (IEEE 802)
	send = func(frames int) error {
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, unix.SIOCGIFINDEX, request); err != nil {
			return err
		}
		to := &unix.SockaddrLinklayer{Ifindex: int(request.Uint32())}
		for range frames {
			if err := unix.Sendto(socket, frame, unix.MSG_DONTWAIT, to); err != nil && err != unix.ENOBUFS &&
				err != unix.EAGAIN {
				return err
			}
		}
		return nil
	}
	return tap, send, drain
}
