//go:build netns

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"mpps/internal/must"
)

// TestRemoved: a device that goes away ends the run; what one that is down did
// not take is counted.
func TestRemoved(t *testing.T) {
	for name, do := range map[string]func(netlink.Link) error{"removed": netlink.LinkDel, "down": netlink.LinkSetDown} {
		a, _ := pair(t)
		g := mustGenerator(t, Config{Out: a, Method: XDP})
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		go func() {
			for g.Sent() == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			must.Try(t, a.Do(func() error {
				l, err := netlink.LinkByName(a.Iface)
				if err != nil {
					return err
				}
				return do(l)
			}))
			if name == "down" { // nothing else ends it
				time.Sleep(time.Second)
				cancel()
			}
		}()
		r, err := g.Run(ctx)
		cancel()
		switch {
		case r.Sent == 0,
			name == "removed" && (!errors.Is(err, ErrNoDevice) || r.Cancelled),
			name == "down" && (err != nil || !r.Cancelled || r.Refused == 0 || r.Refused >= r.Sent ||
				len(r.Warnings) == 0):
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestKilled: a process that is killed leaves nothing attached.
func TestKilled(t *testing.T) {
	const env = "MPPS_TEST_KILLED"
	if v := os.Getenv(env); v != "" { // the child
		a, _ := ParseEndpoint(strings.Fields(v)[0])
		b, _ := ParseEndpoint(strings.Fields(v)[1])
		mustSink(t, SinkConfig{In: b, Method: XDP})
		g := mustGenerator(t, Config{Out: a, Method: XDP, Rate: 10_000})
		fmt.Println("ready")
		_, err := g.Run(context.Background())
		t.Fatal(err)
	}
	a, b := pair(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), env+"="+a.String()+" "+b.String())
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	time.Sleep(200 * time.Millisecond)
	d := must.Get(b.Device())(t)
	if on, err := hasXDP(d); line != "ready\n" || !on || err != nil {
		t.Fatalf("the child said %q, program %v, %v", line, on, err)
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	begin := time.Now()
	for on := true; on; time.Sleep(10 * time.Millisecond) {
		if on, err = hasXDP(d); err != nil || time.Since(begin) > 30*time.Second {
			t.Fatalf("program %v after %v, %v", on, time.Since(begin), err)
		}
	}
	t.Logf("gone after %v", time.Since(begin))
}

// TestCancel: a run without limits ends promptly, with its count.
func TestCancel(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		for _, rate := range []float64{0, 100} {
			s := mustSink(t, SinkConfig{In: b})
			g := mustGenerator(t, Config{Out: a, Rate: rate, Method: m})
			ctx, cancel := context.WithCancel(context.Background())
			var begin time.Time
			go func() {
				for g.Sent() == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(50 * time.Millisecond)
				begin = time.Now()
				cancel()
			}()
			r, err := g.Run(ctx)
			took := time.Since(begin)
			c := settle(t, s, r.Sent)
			must.Hold(t, err == nil && r.Cancelled && r.Sent != 0 && c.Received == r.Sent,
				"%s: %+v, %v, received %d", m, r, err, c.Received)
			if took > 2*time.Second { // 20–50 ms on a machine that is not loaded
				t.Errorf("%s: ended %v after it was cancelled", m, took)
			}
			s.Close()
			g.Close()
		}
	}
}

// TestNothingLeft: whatever was attached is gone after Close, and the control
// traffic passes while a sink is there.
func TestNothingLeft(t *testing.T) {
	a, b := pair(t)
	da, _ := a.Device()
	db := must.Get(b.Device())(t)
	check := func(when string, d Device, want bool) {
		t.Helper()
		got, err := hasXDP(d)
		must.Hold(t, err == nil && got == want, "%s: program on %s: %v, want %v (%v)", when, d.Endpoint, got, want, err)
	}
	check("before", db, false)
	g := mustGenerator(t, Config{Out: a, Count: 1000, Method: XDP})
	check("generator towards a veth without a program", db, true)
	check("generator", da, false)
	must.Do(t, g.Close())
	check("generator closed", db, false)

	s := mustSink(t, SinkConfig{In: b, Method: XDP})
	check("sink", db, true)
	must.Fail(NewSink(SinkConfig{In: b, Method: XDP}))(t, "a second sink on the same device was accepted")
	must.Do(t, s.Close())
	check("sink closed", db, false)
}
