//go:build lab

package forward

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/measure"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// bench runs a measurement in L1 and checks its ledger.
func bench(t *testing.T, l *lab.Lab, args string) *measure.Run {
	t.Helper()
	r := must.Get(l.Shell(t.Context(), "mpps --json bench pps --keep=false --warm-up 300ms --repeat 1 "+args))(t)
	if r.Code != 0 && r.Code != 5 { // the generator may be the limit of an emulated host
		t.Fatalf("%s: %v: %s", args, r.Err(), r.Stderr)
	}
	var answer struct{ Result measure.Run }
	if err := json.Unmarshal([]byte(r.Stdout), &answer); err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	run := &answer.Result
	for _, s := range run.Samples {
		must.Hold(t, s.Sent != 0 && s.Sent == s.Received-s.Duplicated+s.Lost,
			"%s: sent %d, received %d, duplicated %d, lost %d", args, s.Sent, s.Received, s.Duplicated, s.Lost)
	}
	t.Logf("%s: sent %d, received %d, lost %d, out of order %d, %.4g packets/s, limited by %s; %s", args, run.Sent,
		run.Received, run.Lost,
		run.Reordered, run.Median.Value, run.LimitedBy, run.Environment.Generator)
	return run
}

// TestPktgen: the kernel's generator counts as our sinks do, leaves nothing behind, and minds others.
func TestPktgen(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t)
	ctx := t.Context()
	must := func(script string) string {
		t.Helper()
		out := must.Get(l.Must(ctx, script))(t)
		return out
	}
	must(`set -e
ip netns add A; ip netns add B
ip -n A link add eth0 type veth peer name eth0 netns B
ip -n A link set eth0 up; ip -n B link set eth0 up`)
	t.Cleanup(func() { _, _ = l.Shell(context.WithoutCancel(ctx), "ip netns del A; ip netns del B") })
	const way = "--from netns:A/eth0 --to netns:B/eth0 --generator pktgen --duration 500ms "
	if r, err := l.Shell(ctx, "mpps bench pps "+way); err != nil || r.Code != 1 ||
		!strings.Contains(r.Stderr, "hint: modprobe pktgen") {
		t.Errorf("without the module: %v, exit status %d: %s", err, r.Code, r.Stderr)
	}
	must("modprobe pktgen")
	for _, c := range []string{"", "--cpus 0,1 --frame 512", "--sink af_packet --rate 5k --duration 2s"} {
		run := bench(t, l, way+c)
		// Nothing between the two ends of a pair: every frame arrives, once and in order, but where a ring is full.
		if !strings.Contains(c, "af_packet") {
			if run.Lost != 0 || run.Duplicated != 0 || run.Reordered != 0 {
				t.Errorf("%s: lost %d, duplicated %d, out of order %d", c, run.Lost, run.Duplicated, run.Reordered)
			}
		}
		if strings.Contains(c, "--rate") && (run.Median.Value < 4500 || run.Median.Value > 5500) {
			t.Errorf("at 5 k a second %.0f a second were sent", run.Median.Value)
		}
	}
	const entries = `ip netns exec A sh -c 'ls /proc/net/pktgen | grep -v -e pgctrl -e kpktgend || :'`
	if left := must(entries); left != "" {
		t.Errorf("left behind: %s", left)
	}
	must(`ip netns exec A sh -c 'echo add_device eth0@9 > /proc/net/pktgen/kpktgend_1'`)
	if r, err := l.Shell(ctx, "mpps bench pps "+way); err != nil || r.Code != 1 ||
		!strings.Contains(r.Stderr, "kpktgend_1 has eth0@9") {
		t.Errorf("with somebody else's device: %v, exit status %d: %s", err, r.Code, r.Stderr)
	}
	if left := must(entries); strings.TrimSpace(left) != "eth0@9" {
		t.Errorf("somebody else's device is %q now", left)
	}
	must(`ip netns exec A sh -c 'echo rem_device_all > /proc/net/pktgen/kpktgend_1'`)
	// Killed, the run ends, by the kernel or by its own count, and the next measurement removes the entry.
	sent := must(`set -e
mpps -q bench pps ` + way + `--duration 60s --repeat 1 >/dev/null 2>&1 &
now() { ip netns exec B cat /sys/class/net/eth0/statistics/rx_packets; }
first=$(now)
for i in $(seq 600); do [ $(now) -lt $((first + 100)) ] || break; sleep 0.1; done
sleep 2; kill -9 $!
for i in $(seq 40); do a=$(now); sleep 0.5; [ $a != $(now) ] || break; done
echo $first $a $(now)`)
	if f := strings.Fields(sent); len(f) != 3 || f[0] == f[1] || f[1] != f[2] {
		t.Errorf("20 s after a kill the far end counts on: %s", sent)
	}
	bench(t, l, way)
	if left := must(entries); left != "" {
		t.Errorf("left behind by a killed run: %s", left)
	}
}

// TestRouter: a guest with a NIC in each of two bridges routes from one to the other.
func TestRouter(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t)
	ctx := t.Context()
	setup := func(ctx context.Context) error {
		if err := l.Bridge(ctx, "br0", "198.18.0.250/24"); err != nil {
			return err
		}
		return l.Bridge(ctx, "br1", "")
	}
	must.Do(t, setup(ctx))
	g, err := l.StartGuestFresh(ctx, lab.GuestSpec{Name: "router", Binary: labtest.Init(t), Direct: true, Forward: true,
		NICs: []lab.NIC{
			{Model: lab.Vhost, Bridge: "br0", Addr: "198.18.0.254/24"},
			{Model: lab.Vhost, Bridge: "br1", Addr: "198.19.0.254/24"},
		}}, setup)
	must.Do(t, err)
	t.Cleanup(func() { _ = g.Stop(context.WithoutCancel(ctx)) })
	must.Get(l.Must(ctx, "modprobe pktgen"))(t)
	const way = "--forward --via br0 --out br1 --duration 1s --rate 1k "
	for _, c := range []string{"--gateway 198.18.0.254", "--gateway 198.19.0.254 --reverse",
		"--gateway 198.18.0.254 --generator pktgen"} {
		run := bench(t, l, way+c)
		if run.Received == 0 { // an emulated guest may be slow, and its tap still full at the end, but it forwards
			t.Errorf("%s: sent %d, received %d: %+v", c, run.Sent, run.Received, run.Losses)
		}
	}
	if r, err := l.Shell(ctx, "ip -br link | grep mpps-"); err != nil || r.Code == 0 {
		t.Errorf("left behind: %v, %s", err, r.Stdout)
	}
}
