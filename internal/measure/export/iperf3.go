package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"mpps/internal/measure"
)

// iperf3 writes an object per run with the members of 'iperf3 --json' (iperf_api.c of iperf 3.12 to 3.19, compared with
// its output): the UDP form for packets, the TCP form for streams, an interval per trial.
//
// Differences in meaning: bytes of UDP are those of the datagrams, as in iperf3, computed from the number of frames;
// intervals are the receiver's view, as with 'iperf3 -s'; cpu_utilization_percent covers the whole machine with
// softirq, in percent of one CPU, where iperf3 has only its own process; bits_per_second excludes what drained from
// buffers after the sender had stopped; mixed frames count with their mean size, and two-way traffic with the sum.
// Jitter is not measured and therefore missing; so are the connections of a stream. What iperf3 has no name for is
// under "mpps".
func iperf3(w io.Writer, s *Set) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "\t") // as cJSON prints it
	encoder.SetEscapeHTML(false)
	for _, l := range s.Runs {
		if err := encoder.Encode(iperfRun(l, s.Version)); err != nil {
			return err
		}
	}
	return nil
}

type iperf struct {
	Start     iperfStart      `json:"start"`
	Intervals []iperfInterval `json:"intervals"`
	End       iperfEnd        `json:"end"`
	Title     string          `json:"title,omitempty"`
	MPPS      iperfOurs       `json:"mpps"`
}

type iperfStart struct {
	Connected  []iperfConnected `json:"connected"`
	Version    string           `json:"version"`
	SystemInfo string           `json:"system_info"`
	Timestamp  iperfTimestamp   `json:"timestamp"`
	Bitrate    float64          `json:"target_bitrate"`
	Test       iperfTest        `json:"test_start"`
}

type iperfConnected struct {
	Local  string `json:"local_host,omitempty"`
	Remote string `json:"remote_host,omitempty"`
}

type iperfTimestamp struct {
	Time     string `json:"time"`
	TimeSecs int64  `json:"timesecs"`
}

type iperfTest struct {
	Protocol string  `json:"protocol"`
	Streams  int     `json:"num_streams"`
	Block    int     `json:"blksize,omitempty"`
	Omit     float64 `json:"omit"`
	Duration float64 `json:"duration"`
	Bytes    int     `json:"bytes"`
	Blocks   int     `json:"blocks"`
	Reverse  int     `json:"reverse"`
	Bitrate  float64 `json:"target_bitrate"`
}

type iperfInterval struct {
	Streams []iperfSum `json:"streams"`
	Sum     iperfSum   `json:"sum"`
}

type iperfSum struct {
	Start       float64  `json:"start"`
	End         float64  `json:"end"`
	Seconds     float64  `json:"seconds"`
	Bytes       uint64   `json:"bytes"`
	BitsPerS    float64  `json:"bits_per_second"`
	Retransmits *uint64  `json:"retransmits,omitempty"`
	LostPackets *uint64  `json:"lost_packets,omitempty"`
	Packets     *uint64  `json:"packets,omitempty"`
	LostPercent *float64 `json:"lost_percent,omitempty"`
	OutOfOrder  *uint64  `json:"out_of_order,omitempty"`
	Omitted     *bool    `json:"omitted,omitempty"`
	Sender      bool     `json:"sender"`
}

type iperfEnd struct {
	Streams  []iperfStream `json:"streams"`
	Sum      *iperfSum     `json:"sum,omitempty"` // UDP
	Sent     iperfSum      `json:"sum_sent"`
	Received iperfSum      `json:"sum_received"`
	CPU      iperfCPU      `json:"cpu_utilization_percent"`
}

type iperfStream struct {
	UDP *iperfSum `json:"udp,omitempty"`
}

type iperfCPU struct {
	HostTotal    *float64 `json:"host_total,omitempty"`
	HostUser     *float64 `json:"host_user,omitempty"`
	HostSystem   *float64 `json:"host_system,omitempty"`
	RemoteTotal  *float64 `json:"remote_total,omitempty"`
	RemoteUser   *float64 `json:"remote_user,omitempty"`
	RemoteSystem *float64 `json:"remote_system,omitempty"`
}

type iperfOurs struct {
	Median    measure.Estimate  `json:"median"`
	LimitedBy measure.Limit     `json:"limited_by"`
	Side      string            `json:"side,omitempty"`
	Warnings  []measure.Warning `json:"warnings"`
}

// datagram returns the payload of a test frame: its size without FCS, Ethernet, IPv4 and UDP headers.
func datagram(frame int) int { return max(frame-4-14-20-8, 0) }

func iperfRun(l Labeled, version string) iperf {
	r := l.Run
	out := iperf{Title: l.Label, Start: iperfStartOf(r, version), Intervals: []iperfInterval{},
		End: iperfEnd{Streams: []iperfStream{}},
		MPPS: iperfOurs{Median: r.Median, LimitedBy: r.LimitedBy, Side: l.Side,
			Warnings: append([]measure.Warning{}, r.Warnings...)}}
	var total iperfSum
	var weighted float64
	var disordered uint64
	for _, s := range r.Samples {
		sum := iperfSampleOf(r, s, total.End)
		omitted := false
		sum.Omitted = &omitted
		out.Intervals = append(out.Intervals, iperfInterval{Streams: []iperfSum{}, Sum: sum})
		total.End, total.Seconds, total.Bytes = sum.End, total.Seconds+sum.Seconds, total.Bytes+sum.Bytes
		weighted += sum.BitsPerS * sum.Seconds
		disordered += s.Reordered
	}
	if total.Seconds > 0 {
		total.BitsPerS = weighted / total.Seconds
	}
	sent, received := total, total
	sent.Sender = true
	if r.Kind == measure.PPS {
		lost, percent, none, nothing := r.Lost, loss(r.Lost, r.Sent), uint64(0), 0.0
		sent.Bytes = r.Sent * uint64(datagram(r.Load.FrameBytes))
		if total.Seconds > 0 {
			sent.BitsPerS = float64(sent.Bytes) * 8 / total.Seconds
		}
		sent.Packets, sent.LostPackets, sent.LostPercent = &r.Sent, &none, &nothing
		received.Packets, received.LostPackets, received.LostPercent = &r.Sent, &lost, &percent
		both := sent
		both.LostPackets, both.LostPercent = &lost, &percent
		stream := both
		stream.OutOfOrder = &disordered
		out.End.Sum, out.End.Streams = &both, []iperfStream{{UDP: &stream}}
	} else {
		again := retransmits(r)
		sent.Retransmits = &again // its bytes: TCP delivers what it gets, and only delivered bytes are counted
	}
	out.End.Sent, out.End.Received = sent, received
	out.End.CPU = iperfCPUOf(r)
	return out
}

func iperfStartOf(r *measure.Run, version string) iperfStart {
	start := iperfStart{
		Connected: []iperfConnected{}, Version: "mpps " + version,
		SystemInfo: fmt.Sprintf("Linux %s %s %s", r.Host, r.Environment.Kernel, r.Environment.CPU),
		Timestamp:  iperfTimestamp{Time: r.Started.UTC().Format(time.RFC1123), TimeSecs: r.Started.Unix()},
		Test: iperfTest{Protocol: protocol(r), Streams: max(r.Load.Connections, 1), Omit: r.Load.WarmUp.Seconds(),
			Duration: r.Load.Duration.Seconds()},
	}
	if r.Kind == measure.Stream && r.Load.Ramp > 0 { // of each connection, as iperf3 omits it
		start.Test.Omit = r.Load.Ramp.Seconds()
	}
	if from, to := host(r.From.Address), host(r.To.Address); from != "" || to != "" {
		start.Connected = append(start.Connected, iperfConnected{from, to})
	}
	if strings.HasPrefix(r.From.Where, "agent") {
		start.Test.Reverse = 1
	}
	if r.Kind == measure.PPS {
		size := datagram(r.Load.FrameBytes)
		if r.Load.Mix == "" {
			start.Test.Block = size
		}
		start.Test.Bitrate = r.Load.Offered() * float64(size) * 8
		start.Bitrate = start.Test.Bitrate
	}
	return start
}

func iperfSampleOf(r *measure.Run, s measure.Sample, begin float64) iperfSum {
	sum := iperfSum{Start: begin, End: begin + s.Seconds, Seconds: s.Seconds, Bytes: s.Bytes, BitsPerS: s.BitsPerS}
	if r.Kind == measure.PPS {
		size := uint64(datagram(r.Load.FrameBytes))
		sent, lost, percent := s.Sent, s.Lost, loss(s.Lost, s.Sent)
		sum.Bytes = (s.Sent - min(s.Lost, s.Sent)) * size
		sum.BitsPerS = s.PPS * float64(size) * 8
		sum.Packets, sum.LostPackets, sum.LostPercent = &sent, &lost, &percent
		return sum
	}
	again := s.Retransmits
	sum.Retransmits = &again
	return sum
}

// iperfCPUOf counts guest time as user time, as the kernel's own accounting does.
func iperfCPUOf(r *measure.Run) iperfCPU {
	var out iperfCPU
	for i, to := range [][3]**float64{{&out.HostTotal, &out.HostUser, &out.HostSystem},
		{&out.RemoteTotal, &out.RemoteUser, &out.RemoteSystem}} {
		m := use(r, i)
		if m == nil || m.Seconds <= 0 {
			continue
		}
		t := m.Total()
		for j, busy := range []float64{t.Busy(), t.User + t.Nice + t.Guest, t.System + t.IRQ + t.SoftIRQ} {
			percent := busy / m.Seconds * 100
			*to[j] = &percent
		}
	}
	return out
}
