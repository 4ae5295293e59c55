package traffic

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"mpps/internal/must"
)

func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Endpoint
		ok   bool
	}{
		{"eth0", Endpoint{"", "eth0"}, true},
		{"netns:a/eth0", Endpoint{"a", "eth0"}, true},
		{"netns:a-b.c/veth0", Endpoint{"a-b.c", "veth0"}, true},
		{"", Endpoint{}, false},
		{"netns:", Endpoint{}, false},
		{"netns:a", Endpoint{}, false},
		{"netns:/eth0", Endpoint{}, false},
		{"netns:../eth0", Endpoint{}, false},
		{"netns:a/b/c", Endpoint{}, false},
		{"a/b", Endpoint{}, false},
		{"..", Endpoint{}, false},
		{"eth 0", Endpoint{}, false},
		{"sixteen-bytes-xx", Endpoint{}, false},
	} {
		got, err := ParseEndpoint(c.in)
		must.Hold(t, (err == nil) == c.ok && got == c.want, "%q: %+v, %v", c.in, got, err)
		if c.ok && got.String() != c.in {
			t.Errorf("%q prints as %q", c.in, got)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add("netns:a/eth0")
	f.Add("eth0")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEndpoint(s)
		if err == nil && e.String() != s {
			t.Errorf("%q became %q", s, e)
		}
	})
}

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	macB = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// TestSourceMACs: frames take the source MAC addresses in turn, of which all but the device's own are locally
// administered; nothing else of them changes.
func TestSourceMACs(t *testing.T) {
	f := Frame{SrcMAC: net.HardwareAddr{0x3c, 0xfd, 0xfe, 0, 0xff, 0xfe}, DstMAC: macB, SrcMACs: 4}.withDefaults()
	must.Do(t, f.check(1500))
	one := f
	one.SrcMACs = 0
	b, other := f.template(1), one.template(1)
	base := sums{f.ipBase(), f.udpBase(1)}
	for seq, want := range []string{"3c:fd:fe:00:ff:fe", "3e:fd:fe:00:ff:ff", "3e:fd:fe:01:00:00", "3e:fd:fe:01:00:01",
		"3c:fd:fe:00:ff:fe"} {
		f.put(b, base, flow{}, uint64(seq), 0)
		one.put(other, base, flow{}, uint64(seq), 0)
		must.Equal(t, net.HardwareAddr(b[6:12]).String(), want, "frame %d comes", seq)
		must.Hold(t, bytes.Equal(b[:6], other[:6]) && bytes.Equal(b[12:], other[12:]),
			"frame %d differs in more than its source", seq)
	}
	f.SrcMACs = MaxSourceMACs + 1
	must.Refuse(t, f.check(1500), "too many are taken")
}

// TestFrame checks both checksums with the definition: the sum over everything,
// checksum included, is all ones.
func TestFrame(t *testing.T) {
	for _, f := range []Frame{
		{},
		{UDPChecksum: true},
		{Size: 1518, UDPChecksum: true},
		{Size: 65, UDPChecksum: true, TOS: 0xb8, TTL: 3},
		{Size: 512, VLAN: 4094, Priority: 5, UDPChecksum: true},
		{Src: AddrRange{netip.MustParseAddr("255.255.255.0"), 256}, DstPort: PortRange{65535, 1}, UDPChecksum: true},
	} {
		f.SrcMAC, f.DstMAC = macA, macB
		f = f.withDefaults()
		must.Do(t, f.check(1500))
		base := sums{f.ipBase(), f.udpBase(77)}
		b := f.template(77)
		for range 500 {
			seq, stamp := rand.Uint64(), rand.Uint32()
			p := f.at(rand.Uint64())
			f.put(b, base, p, seq, stamp)
			ip := b[f.l2Bytes():]
			if s := sum(ip[:20]); s != 0xffff {
				t.Fatalf("%+v: IPv4 header sums to %#x", f, s)
			}
			if got := binary.BigEndian.Uint16(ip[2:]); int(got) != len(ip) {
				t.Fatalf("%+v: IPv4 length %d of %d", f, got, len(ip))
			}
			if f.UDPChecksum {
				pseudo := append([]byte{0, 17, ip[24], ip[25]}, ip[12:20]...)
				if s := fold(uint64(sum(pseudo)) + uint64(sum(ip[20:]))); s != 0xffff {
					t.Fatalf("%+v: UDP sums to %#x", f, s)
				}
			}
			if got, ok := parse(b); !ok || got != (tag{77, seq, stamp}) {
				t.Fatalf("parsed %+v %v", got, ok)
			}
		}
	}
}

func TestFrameRefused(t *testing.T) {
	for name, f := range map[string]Frame{
		"short":        {Size: 63},
		"long":         {Size: 1519},
		"short tagged": {Size: 64, VLAN: 1},
		"over MTU":     {Size: 1518},
		"VLAN":         {VLAN: 4095},
		"priority":     {Priority: 8},
		"IPv6":         {Src: AddrRange{First: netip.MustParseAddr("2001:2::1")}},
		"addresses":    {Dst: AddrRange{netip.MustParseAddr("255.255.255.255"), 2}},
		"ports":        {SrcPort: PortRange{65535, 2}},
		"MAC":          {DstMAC: net.HardwareAddr{1}},
	} {
		if f.DstMAC == nil {
			f.DstMAC = macB
		}
		f.SrcMAC = macA
		must.Is(t, f.withDefaults().check(1400), ErrFrame, "%s", name)
	}
}

// TestFlows: stepping visits every flow once and agrees with at.
func TestFlows(t *testing.T) {
	f := Frame{Src: AddrRange{Count: 3}, Dst: AddrRange{Count: 4}, SrcPort: PortRange{Count: 5},
		DstPort: PortRange{Count: 2}}.withDefaults()
	seen := map[flow]bool{}
	var p flow
	for n := range f.Flows() {
		if p != f.at(n) {
			t.Fatalf("flow %d is %+v, at says %+v", n, p, f.at(n))
		}
		seen[p] = true
		f.next(&p)
	}
	if len(seen) != 120 || f.Flows() != 120 || p != (flow{}) {
		t.Errorf("%d flows seen of %d, then %+v", len(seen), f.Flows(), p)
	}
}

func FuzzParseFrame(f *testing.F) {
	fr := Frame{SrcMAC: macA, DstMAC: macB}.withDefaults()
	f.Add(fr.template(1))
	fr.VLAN, fr.Size = 3, 68
	f.Add(fr.template(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, ok := parse(b); ok && len(b) < 60 {
			t.Errorf("recognised a frame of %d bytes", len(b))
		}
	})
}

// hdr returns the same counts as an HdrHistogram, bucket for bucket.
func hdr(h *Histogram) *hdrhistogram.Histogram {
	out := hdrhistogram.New(1, math.MaxUint32, 2)
	for _, b := range h.Bins() {
		_ = out.RecordValues(int64(b.Low), int64(b.Count)) // only values out of range are refused
	}
	return out
}

func quantile(h *Histogram, q float64) time.Duration {
	return time.Duration(hdr(h).ValueAtQuantile(q * 100))
}

func TestHistogram(t *testing.T) {
	ref := hdrhistogram.New(1, 1<<32-1, 2)
	var h Histogram
	for range 20000 {
		v := int64(rand.Uint64N(1 << rand.UintN(33)))
		h.Record(time.Duration(v))
		must.Do(t, ref.RecordValue(v))
		lo, hi := bucketRange(bucket(uint32(v)))
		must.Need(t, v >= int64(lo) && v <= int64(hi), "%d fell into %d to %d", v, lo, hi)
	}
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.9999, 1} {
		if got, want := int64(quantile(&h, q)), ref.ValueAtQuantile(q*100); got != want {
			t.Errorf("quantile %g: %d, HdrHistogram says %d", q, got, want)
		}
	}
	must.Hold(t, hdr(&h).Equals(ref), "differs from the HdrHistogram of the same values")
	if got := FromBins(h.Bins()); *got != h {
		t.Error("lost in Bins and FromBins")
	}
	var sum Histogram
	sum.Merge(&h)
	sum.Merge(&h)
	if sum.Count() != 40000 || quantile(&sum, 0.5) != quantile(&h, 0.5) {
		t.Errorf("merged: %d values, median %v and %v", sum.Count(), quantile(&sum, 0.5), quantile(&h, 0.5))
	}
	if b := bucket(1<<32 - 1); b != histogramBuckets-1 {
		t.Errorf("the highest value is in bucket %d of %d", b, histogramBuckets)
	}
}

// TestTracker plants loss, duplicates and reordering into a long sequence and
// counts them independently.
func TestTracker(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var seqs []uint64
		var lost, dup uint64
		const n = 50000
		for i := range uint64(n) {
			switch r.UintN(100) {
			case 0:
				lost++
				continue
			case 1:
				dup++
				seqs = append(seqs, i)
			}
			seqs = append(seqs, i)
		}
		for range 300 { // move some back
			i := r.IntN(len(seqs) - 2000)
			j := i + r.IntN(1500)
			v := seqs[i]
			copy(seqs[i:], seqs[i+1:j+1])
			seqs[j] = v
		}
		var want uint64 // first arrivals after a higher number
		arrived := map[uint64]bool{}
		var top uint64
		for _, s := range seqs {
			if !arrived[s] && s+1 < top {
				want++
			}
			arrived[s] = true
			top = max(top, s+1)
		}
		var tr tracker
		for _, s := range seqs {
			tr.record(s, 64)
		}
		c := tr.counts(0)
		if c.Lost(n) != lost || c.Duplicated != dup || c.Reordered != want || c.TooLate != 0 || c.Next != top {
			t.Errorf("seed %d: lost %d of %d, duplicated %d of %d, reordered %d of %d", seed, c.Lost(n), lost,
				c.Duplicated, dup, c.Reordered, want)
		}
	}
}

// TestTrackerEpochs: gaps of any size, and numbers too old to be judged.
func TestTrackerEpochs(t *testing.T) {
	var tr tracker
	for _, s := range []uint64{5, 1 << 20, 1<<20 + 1, 1 << 40, 1<<40 - 7, 1<<40 - 7, 1<<40 - trackerWindow + 1,
		1<<40 - trackerWindow - 1, 1<<63 + 3} {
		tr.record(s, 64)
	}
	must.Hold(t, tr.received == 9 && tr.duplicated == 1 && tr.reordered == 2 && tr.tooLate == 1 && tr.first == 5 &&
		tr.next == 1<<63+4, "received %d duplicated %d reordered %d too late %d first %d next %d", tr.received,
		tr.duplicated, tr.reordered, tr.tooLate, tr.first, tr.next)
}

func TestPacer(t *testing.T) {
	// A million frames a second, looked at every 3 µs, with a pause of 5 ms.
	p := newPacer(1e6, 250*time.Microsecond)
	var n uint64
	for at := time.Duration(0); at < time.Second; at += 3 * time.Microsecond {
		if at == 300*time.Millisecond {
			at += 5 * time.Millisecond
		}
		k, _ := p.due(at, 64)
		n += k
	}
	if want := uint64(1e6 - float64(p.slipped)/1000); n > want+5 || n < want-5 || p.slipped < 5*time.Millisecond ||
		p.slipped > 5010*time.Microsecond {
		t.Errorf("%d frames, %v slipped", n, p.slipped)
	}
	if _, wait := p.due(time.Second-10*time.Microsecond, 64); wait <= 0 {
		t.Errorf("nothing to wait for")
	}
}

func TestSpan(t *testing.T) {
	var tr tracker
	for i, ns := range []uint64{100, 300, 900} {
		tr.arrive(ns)
		tr.record(uint64(i), 64)
	}
	s := tr.counts(7)
	must.Hold(t, s.FirstAt == 100 && s.LastAt == 900 && s.Spanned == 2 && s.Span() == 800, "%+v", s)

	c := Counts{Exact: true}
	c.add(s)
	c.add(StreamCounts{CPUs: 1, Received: 5, span: span{FirstAt: 50}}) // too few to tell
	c.add(StreamCounts{CPUs: 1, Received: 40, span: span{FirstAt: 90, LastAt: 700, Spanned: 32}})
	must.Hold(t, c.FirstAt == 90 && c.LastAt == 900 && c.Spanned == 34 && c.Span() == 810, "%+v", c.span)
	must.Hold(t, (Counts{}).Span() == 0 && (Counts{span: span{FirstAt: 5}}).Span() == 0, "a span of nothing")

	// Agents send it.
	text := must.Get(json.Marshal(c))(t)
	var back Counts
	if err := json.Unmarshal(text, &back); err != nil || back.span != c.span ||
		back.Streams[0].Span() != 800*time.Nanosecond {
		t.Errorf("%s became %+v, %v", text, back, err)
	}
}

// TestHoldMemory: all peers together have a bound, what is refused takes nothing, and what is given back twice counts
// once.
func TestHoldMemory(t *testing.T) {
	one := must.Get(HoldMemory(1 << 20))(t)
	for _, bytes := range []uint64{1 << 50, math.MaxUint64} {
		must.Is(t, must.Err(HoldMemory(bytes)), ErrMemory, "%d bytes", bytes)
	}
	must.Equal(t, peersHold.Load(), 1<<20, "bytes are held")
	one()
	one()
	must.Equal(t, peersHold.Load(), 0, "bytes are held at the end")
	if n := (SinkConfig{Streams: 512}).Memory(); n < ringBlock*ringBlocks+512*8192 {
		t.Errorf("512 streams take %d bytes", n)
	}
}

// TestIMIX: 28 of 64, 16 of 570 and 4 of 1518 bytes, and so for every flow.
func TestIMIX(t *testing.T) {
	f := Frame{Sizes: IMIX()}
	counts := map[int]int{}
	for _, size := range f.Sizes {
		counts[size] += 4
	}
	must.Hold(t, counts[64] == 28 && counts[570] == 16 && counts[1518] == 4 && len(counts) == 3,
		"of 48 frames %v", counts)
	if got := f.MeanSize(); math.Abs(got-(28*64+16*570+4*1518)/48.0) > 1e-9 {
		t.Errorf("mean size %g", got)
	}
	for _, flows := range []uint32{1, 7, 16, 48} {
		f.SrcPort = PortRange{1, flows}
		m := f.mix()
		byFlow := make([]map[int]int, flows)
		rounds := 12 * int(m.every)
		for i := range rounds {
			flow := i % int(flows)
			if byFlow[flow] == nil {
				byFlow[flow] = map[int]int{}
			}
			byFlow[flow][m.kinds[m.next()].Size]++
		}
		each := rounds / int(flows) / 12
		for flow, counts := range byFlow {
			must.Hold(t, counts[64] == 7*each && counts[570] == 4*each && counts[1518] == each,
				"flow %d of %d has %v, want 7, 4 and 1 of 12", flow, flows, counts)
		}
	}
}

func TestMixBytes(t *testing.T) {
	for _, f := range []Frame{
		{}, {Size: 1518}, {Sizes: IMIX()}, {Sizes: IMIX(), SrcPort: PortRange{1, 16}},
		{Sizes: []int{64, 100}, SrcPort: PortRange{1, 3}},
		{Sizes: []int{64, 65, 66, 67, 68}, SrcPort: PortRange{1, 5}},
	} {
		m := f.mix()
		var want uint64
		for n := range uint64(5000) {
			if got := f.bytes(n); got != want {
				t.Fatalf("%v, %d flows: %d frames have %d bytes, want %d", f.Sizes, f.Flows(), n, got, want)
			}
			want += uint64(m.kinds[m.next()].Size)
		}
	}
}

func TestMixRefused(t *testing.T) {
	many := make([]int, maxOrder+1)
	for i := range many {
		many[i] = 64
	}
	for name, c := range map[string]struct {
		sizes []int
		mtu   int
	}{
		"a runt":                  {[]int{64, 63}, 1500},
		"a giant":                 {[]int{64, 1519}, 0},
		"too many":                {many, 1500},
		"too many different ones": {[]int{64, 65, 66, 67, 68, 69, 70, 71, 72}, 1500},
		"one over the MTU":        {[]int{64, 1518}, 1499},
	} {
		f := Frame{Sizes: c.sizes}.withDefaults()
		f.SrcMAC, f.DstMAC = make([]byte, 6), make([]byte, 6)
		must.Is(t, f.check(c.mtu), ErrFrame, "%s", name)
	}
}
