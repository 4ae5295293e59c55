package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/owned"
)

// A generator can be started on a link. stop ends it and waits for it.
type generator struct {
	name, version, apt string
	missing            string // why it cannot be started
	lateSink           bool   // it talks to its far end before it sends
	start              func(context.Context, *link) (stop func(), ended <-chan error, err error)
}

func generators(tree string) []generator {
	return []generator{
		bare(),
		ours("mpps xdp", traffic.Config{Method: traffic.XDP}),
		ours("mpps xdp, 65536 flows", traffic.Config{Method: traffic.XDP, Frame: traffic.Frame{
			SrcPort: traffic.PortRange{First: 1024, Count: 256}, DstPort: traffic.PortRange{First: 1024, Count: 256},
		}}),
		ours("mpps af_packet", traffic.Config{Method: traffic.AFPacket}),
		ours("kernel pktgen, driven by mpps", traffic.Config{Method: traffic.Pktgen}),
		xdpTrafficgen(tree),
		program("trafgen", "netsniff-ng", "trafgen", []string{"--version"}, nil, trafgenArgs),
		program("testpmd net_af_xdp", "dpdk-dev", "dpdk-testpmd", []string{"--version"}, nil,
			testpmdArgs("net_af_xdp0,iface=%s")),
		program("testpmd net_af_packet", "dpdk-dev", "dpdk-testpmd", []string{"--version"}, nil,
			testpmdArgs("net_af_packet0,iface=%s,qdisc_bypass=1")),
		iperf3(),
	}
}

// benchGenerators compares the packets per second that arrive.
func benchGenerators(ctx context.Context, l *link, o options) ([]Part, error) {
	var all []contestant
	base := 0
	for _, g := range generators(o.tree) {
		if g.name == "mpps xdp" {
			base = len(all)
		} else if len(o.only) > 0 && !slices.ContainsFunc(o.only,
			func(w string) bool { return strings.Contains(g.name, w) }) {
			continue
		}
		all = append(all, contestant{
			row: Row{Name: g.name, Package: g.apt, Version: g.version, Failed: g.missing},
			turn: func(ctx context.Context) ([]float64, error) {
				pps, err := turn(ctx, g, l, o.each)
				return []float64{pps}, err
			},
		})
	}
	return interleave(ctx, o, all, []Part{{
		Title: "packet generators on one core: 64-byte frames, a veth pair into an XDP program that drops, counted " +
			"there",
		Unit: "Mpps", Scale: 1e6, Base: base,
	}})
}

// bare is the kernel's loop that ours runs in, with a program that writes nothing.
func bare() generator {
	return inProcess("bare loop, nothing written", func(ctx context.Context, l *link) error {
		return traffic.BareLoop(ctx, l.near, l.cpu, traffic.Frame{Size: traffic.MinFrame})
	})
}

// ours is one of mpps's own generators.
func ours(name string, c traffic.Config) generator {
	return inProcess(name, func(ctx context.Context, l *link) error {
		c.Out, c.CPUs = l.near, []int{l.cpu}
		g, err := traffic.NewGenerator(ctx, c)
		if err != nil {
			return err
		}
		_, err = g.Run(ctx)
		return errors.Join(err, g.Close())
	})
}

// inProcess is a generator that runs in this process until its context ends.
func inProcess(name string, run func(context.Context, *link) error) generator {
	g := generator{name: name, apt: "this repository"}
	g.start = func(ctx context.Context, l *link) (func(), <-chan error, error) {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			ended <- run(ctx, l)
		}()
		return func() { cancel(); <-done }, ended, nil
	}
	return g
}

// program is a generator that is another program. loader is put in front of it.
func program(name, apt, file string, versionArgs, loader []string, args func(l *link) ([]string, error)) generator {
	g := generator{name: name, apt: apt}
	path, err := file, error(nil)
	if !filepath.IsAbs(file) {
		path, err = lookPath(file)
	}
	if err != nil {
		g.missing = fmt.Sprintf("not installed (apt install %s)", apt)
		return g
	}
	argv := append(loader, path)
	g.version = version(append(argv[:len(argv):len(argv)], versionArgs...))
	g.start = func(ctx context.Context, l *link) (func(), <-chan error, error) {
		a, err := args(l)
		if err != nil {
			return nil, nil, err
		}
		return launch(l.near.Netns, l.cpu, append(argv[:len(argv):len(argv)], a...))
	}
	return g
}

// lookPath also looks in /usr/sbin.
func lookPath(file string) (string, error) {
	path, err := exec.LookPath(file)
	if err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", file))
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

func version(argv []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// Some programs fail when asked this; only the number matters.
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = owned.Run(cmd)
	return string(versionNumber.Find(out.Bytes()))
}

// launch starts a program in a network namespace, on one CPU.
func inNetns(netns string, cpu int, argv []string) ([]string, error) {
	ip, err := lookPath("ip")
	if err != nil {
		return nil, errors.New("not installed: ip (apt install iproute2)")
	}
	return append([]string{ip, "netns", "exec", netns, "taskset", "-c", strconv.Itoa(cpu)}, argv...), nil
}

// launch starts a program in a network namespace, on one CPU.
func launch(netns string, cpu int, argv []string) (stop func(), ended <-chan error, err error) {
	argv, err = inNetns(netns, cpu, argv)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	stdin, err := cmd.StdinPipe() // kept open: some programs end with it
	if err != nil {
		return nil, nil, err
	}
	if err := owned.Start(cmd); err != nil {
		return nil, nil, err
	}
	gone := make(chan struct{})
	why := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		close(gone)
		why <- fmt.Errorf("ended (%v): %s", err, lastLine(out.Bytes()))
	}()
	return func() {
		for _, s := range []struct {
			signal syscall.Signal
			wait   time.Duration
		}{{syscall.SIGINT, 3 * time.Second}, {syscall.SIGTERM, time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
			_ = syscall.Kill(-cmd.Process.Pid, s.signal) // gone already is as good
			select {
			case <-gone:
				stdin.Close()
				return
			case <-time.After(s.wait):
			}
		}
	}, why, nil
}

// lastLine returns a program's error, or its last line, as a reason that fits one line.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, l := range lines {
		low := strings.ToLower(l)
		if strings.Contains(low, "error") || strings.Contains(low, "fail") || strings.Contains(low, "couldn't") {
			return strings.TrimSpace(l)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// inTree returns a program in a newer root tree, and its loader; "" if it is not there.
func inTree(tree, program string) (path string, loader []string) {
	path = filepath.Join(tree, program)
	if _, err := os.Stat(path); tree == "" || err != nil {
		return "", nil
	}
	return path, []string{filepath.Join(tree, "lib64/ld-linux-x86-64.so.2"), "--library-path",
		filepath.Join(tree, "usr/lib/x86_64-linux-gnu")}
}

// xdpTrafficgen uses the program and libraries of a newer root tree, if there is one.
func xdpTrafficgen(tree string) generator {
	args := func(l *link) ([]string, error) {
		return []string{"udp", l.near.Iface, "-m", l.farMAC, "-M", l.nearMAC, "-t", "1"}, nil
	}
	if path, loader := inTree(tree, "usr/sbin/xdp-trafficgen"); path != "" {
		return program("xdp-trafficgen", "xdp-tools (Debian 13)", path, []string{"udp", "--version"}, loader, args)
	}
	return program("xdp-trafficgen", "xdp-tools", "xdp-trafficgen", []string{"udp", "--version"}, nil, args)
}

// trafgenArgs describes the same frame as ours in trafgen's language.
func trafgenArgs(l *link) ([]string, error) {
	near, err := net.ParseMAC(l.nearMAC)
	if err != nil {
		return nil, err
	}
	far, err := net.ParseMAC(l.farMAC)
	if err != nil {
		return nil, err
	}
	frame := append(append([]byte{}, far...), near...)
	frame = append(frame, 0x08, 0x00,
		0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0xae, 0x97, 198, 18, 0, 1, 198, 18, 0, 2,
		0xc0, 0, 0, 9, 0, 26, 0, 0)
	frame = append(frame, make([]byte, 18)...)
	text := make([]string, len(frame))
	for i, b := range frame {
		text[i] = fmt.Sprintf("0x%02x", b)
	}
	return []string{"--dev", l.near.Iface, "--cpus", "1", "--no-cpu-stats", "{ " + strings.Join(text, ", ") + " }"}, nil
}

func testpmdArgs(vdev string) func(l *link) ([]string, error) {
	return func(l *link) ([]string, error) {
		return []string{
			"--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--file-prefix", l.near.Netns,
			"--lcores", fmt.Sprintf("0@%d,1@%d", l.cpu, l.cpu), "--vdev", fmt.Sprintf(vdev, l.near.Iface),
			"--", "--forward-mode=txonly", "--txpkts=60", "--auto-start", "--total-num-mbufs=16384",
			"--no-lsc-interrupt",
		}, nil
	}
}

// iperf3 needs its server, on another CPU, before it sends.
func iperf3() generator {
	g := program("iperf3 -u -l 18", "iperf3", "iperf3", []string{"--version"}, nil, func(l *link) ([]string, error) {
		return []string{"-c", farAddr, "-u", "-l", "18", "-b", "0", "-t", "60", "-i", "0"}, nil
	})
	if g.missing != "" {
		return g
	}
	client := g.start
	g.lateSink = true
	g.start = func(ctx context.Context, l *link) (func(), <-chan error, error) {
		path, err := lookPath("iperf3")
		if err != nil {
			return nil, nil, err
		}
		stopServer, _, err := launch(l.far.Netns, l.other, []string{path, "-s", "-1", "-i", "0"})
		if err != nil {
			return nil, nil, err
		}
		time.Sleep(500 * time.Millisecond) // until it listens
		stop, ended, err := client(ctx, l)
		if err != nil {
			stopServer()
			return nil, nil, err
		}
		return func() { stop(); stopServer() }, ended, nil
	}
	return g
}
