package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mpps/internal/owned"
)

// A talker measures transactions of one byte each way over TCP, one at a time, with a server at the far end and a
// client here.
type talker struct {
	row    Row
	server []string
	client []string
	parse  func([]byte) (median, mean float64, err error) // in µs
}

const (
	netperfPort  = "12865"
	sockperfPort = "12866"
	mppsPort     = "12867"
)

// benchRR compares latencies of transactions, with client and server on one CPU and on two. Left to the scheduler they
// migrate between the two cases, which differ by a factor of ten.
func benchRR(ctx context.Context, l *link, o options) ([]Part, error) {
	var parts []Part
	for _, place := range []struct {
		name           string
		client, server int
	}{{"on one CPU", l.cpu, l.cpu}, {"on two CPUs", l.cpu, l.other}} {
		if place.name == "on two CPUs" && place.client == place.server {
			continue
		}
		var all []contestant
		var stops []func()
		for _, t := range talkers(o) {
			row := t.row
			if row.Failed == "" {
				stop, _, err := launch(l.far.Netns, place.server, t.server)
				if err != nil {
					row.Failed = err.Error()
				} else {
					stops = append(stops, stop)
				}
			}
			all = append(all, contestant{row: row, turn: func(ctx context.Context) ([]float64, error) {
				out, err := output(ctx, l.near.Netns, place.client, o.each, t.client)
				if err != nil {
					return nil, err
				}
				median, mean, err := t.parse(out)
				return []float64{median, mean}, err
			}})
		}
		time.Sleep(time.Second) // until they listen
		results, err := interleave(ctx, o, all, []Part{
			{Title: "TCP transactions of 1 byte over a veth pair, client and server " + place.name +
				": median (netperf tells whole µs)", Unit: "µs", Scale: 1},
			{Title: "the same, mean", Unit: "µs", Scale: 1},
		})
		for _, stop := range stops {
			stop()
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, results...)
	}
	return parts, nil
}

func talkers(o options) []talker {
	seconds := strconv.Itoa(int(math.Ceil(o.each.Seconds())))
	netperf := talker{row: Row{Name: "netperf TCP_RR", Package: "netperf (Debian 13)"}, parse: parseNetperf}
	program, loader := inTree(o.tree, "usr/bin/netperf")
	server, _ := inTree(o.tree, "usr/bin/netserver")
	if program == "" {
		var err error
		if program, err = lookPath("netperf"); err == nil {
			server, err = lookPath("netserver")
		}
		if err != nil {
			netperf.row.Failed = "not installed (bin/mpps-lab up builds a tree that has it)"
		}
	}
	if netperf.row.Failed == "" {
		netperf.row.Version = version(append(loader[:len(loader):len(loader)], program, "-V"))
		netperf.server = append(loader[:len(loader):len(loader)], server, "-D", "-4", "-L", farAddr, "-p", netperfPort)
		netperf.client = append(loader[:len(loader):len(loader)], program, "-H", farAddr, "-p", netperfPort, "-t",
			"TCP_RR", "-l", seconds, "-P", "0", "--", "-D", "-o", "P50_LATENCY,MEAN_LATENCY")
	}
	sockperf := talker{row: Row{Name: "sockperf ping-pong", Package: "sockperf"}, parse: parseSockperf}
	if path, err := lookPath("sockperf"); err != nil {
		sockperf.row.Failed = "not installed (apt install sockperf)"
	} else {
		sockperf.row.Version = version([]string{path, "--version"})
		sockperf.server = []string{path, "server", "--tcp", "-i", farAddr, "-p", sockperfPort}
		sockperf.client = []string{path, "ping-pong", "--tcp", "-i", farAddr, "-p", sockperfPort, "-t", seconds, "-m",
			"14", "--full-rtt"}
	}
	address := net.JoinHostPort(farAddr, mppsPort)
	ours := talker{row: Row{Name: "mpps bench rr", Package: "this repository"}, parse: parseMpps,
		server: []string{o.mpps, "agent", "--insecure-lab", "--listen", address},
		client: []string{o.mpps, "--json", "bench", "rr", "--agent", address, "--duration", seconds + "s", "--warm-up",
			"100ms", "--repeat", "1", "--keep=false"},
	}
	return []talker{netperf, sockperf, ours}
}

// output runs a client to its end, for at most 15 s more than it measures, and returns its output.
func output(ctx context.Context, netns string, cpu int, each time.Duration, argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, each+15*time.Second)
	defer cancel()
	argv, err := inNetns(netns, cpu, argv)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := owned.Run(cmd); err != nil && out.Len() == 0 {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(argv[6]), err, lastLine(stderr.Bytes()))
	}
	return out.Bytes(), nil
}

func parseNetperf(out []byte) (median, mean float64, err error) {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if _, err := fmt.Sscanf(lines[len(lines)-1], "%g,%g", &median, &mean); err != nil {
		return 0, 0, fmt.Errorf("netperf: found %q, expected two numbers", lastLine(out))
	}
	return median, mean, nil
}

var (
	sockperfMedian = regexp.MustCompile(`percentile 50\.\d+ *= *([\d.]+)`)
	sockperfMean   = regexp.MustCompile(`Round trip is ([\d.]+) usec`)
)

func parseSockperf(out []byte) (median, mean float64, err error) {
	median50, roundTrip := sockperfMedian.FindSubmatch(out), sockperfMean.FindSubmatch(out)
	if median50 == nil || roundTrip == nil {
		return 0, 0, fmt.Errorf("sockperf: found %q, expected percentiles", lastLine(out))
	}
	if median, err = strconv.ParseFloat(string(median50[1]), 64); err != nil {
		return 0, 0, err
	}
	mean, err = strconv.ParseFloat(string(roundTrip[1]), 64)
	return median, mean, err
}

func parseMpps(out []byte) (median, mean float64, err error) {
	var answer struct {
		Result struct {
			Samples []struct {
				Latency struct {
					MeanNs      float64 `json:"mean_ns"`
					Percentiles []struct {
						P       float64 `json:"p"`
						ValueNs float64 `json:"value_ns"`
					} `json:"percentiles"`
				} `json:"latency"`
			} `json:"samples"`
		} `json:"result"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return 0, 0, fmt.Errorf("mpps: %w", err)
	}
	for _, s := range answer.Result.Samples {
		for _, p := range s.Latency.Percentiles {
			if p.P == 50 {
				return p.ValueNs / 1e3, s.Latency.MeanNs / 1e3, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("mpps: found no median, expected one in %d samples", len(answer.Result.Samples))
}
