package domain

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestHostileSizes: the worst that fits in the limits costs seconds at most, not minutes: nothing grows with the
// square.
func TestHostileSizes(t *testing.T) {
	repeat := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i, i%65536/256, i%256)
		}
		return b.String()
	}
	cases := map[string]string{
		"interfaces": "<domain><devices>" +
			repeat(10000, "<interface type='a%[1]d'><mac address='52:54:%02[2]x:%02[3]x:0:1'/></interface>") +
			"</devices></domain>",
		"same MAC": "<domain><devices>" +
			strings.Repeat("<interface type='x'><mac address='52:54:0:0:0:1'/></interface>", 10000) +
			"</devices></domain>",
		"pins": "<domain><vcpu>90000</vcpu><cputune>" + repeat(16000, "<vcpupin vcpu='%[1]d' cpuset='%[3]d'/>") +
			"</cputune></domain>",
		"long sets": "<domain><cputune>" + strings.Repeat("<vcpusched vcpus='"+strings.Repeat("0-16383,", 8000)+
			"1'/>", 60) + strings.Repeat("<vcpusched vcpus='0-16383,0-16383,0-16383,1'/>", 300) + "</cputune></domain>",
		"pages": "<domain><memoryBacking><hugepages>" + strings.Repeat("<page size='1'/>", 50000) +
			"</hugepages></memoryBacking></domain>",
		"deep":        "<domain>" + strings.Repeat(strings.Repeat("<a>", 250)+strings.Repeat("</a>", 250), 300) + "</domain>",
		"entities":    "<domain>" + strings.Repeat("&amp;", 800000) + "</domain>",
		"white space": "<domain>" + strings.Repeat(" \n", 2<<20-100) + "</domain>",
		"open tags":   "<domain>" + strings.Repeat("<a ", 1<<20),
		"attributes":  "<domain>" + strings.Repeat("<a "+repeat(200, "b%[1]d='' ")+"/>", 1500) + "</domain>",
	}
	runtime.LockOSThread() // so that its CPU time is that of the cases, whatever else runs
	defer runtime.UnlockOSThread()
	for name, text := range cases {
		start := threadTime(t)
		d, err := Parse([]byte(text))
		if err == nil {
			d.Guest()
			Diff(d, d)
			_ = d.Set("vcpupin/1", "1")
			_ = d.Bytes()
		}
		if took := threadTime(t) - start; took > time.Minute {
			t.Errorf("%s: %d bytes took %v", name, len(text), took)
		} else {
			t.Logf("%s: %d bytes, %v, error %v", name, len(text), took.Round(time.Millisecond), err)
		}
	}
}

// TestManyInterfaces: a value of each of 4,000 interfaces costs no look at all the others for each.
func TestManyInterfaces(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var b strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&b, "<interface type='bridge'><mac address='52:54:00:00:%02x:%02x'/><source bridge='br0'/>"+
			"<model type='virtio'/></interface>", i/256, i%256)
	}
	d := must.Get(Parse([]byte("<domain><devices>" + b.String() + "</devices></domain>")))(t)
	start := threadTime(t)
	for _, off := range []bool{false, true} {
		edits := must.Get(d.Apply([]Change{{Path: "interface/*/driver.queues", Value: "4", Off: off}}, nil, Host{}))(t)
		must.Equal(t, len(edits), 4000, "edits")
	}
	if took := threadTime(t) - start; took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkParseGuest(b *testing.B) {
	text := must.Get(os.ReadFile("testdata/libvirt-realtime.xml"))(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d := must.Get(Parse(text))(b)
		if g := d.Guest(); g.VCPUs.Max != 8 {
			b.Fatal(g)
		}
	}
}

// TestManyThreads: edits of thousands of threads take seconds, not minutes, beside other load too.
func TestManyThreads(t *testing.T) {
	d := parse(t, "<domain><vcpu>1024</vcpu></domain>")
	pins := must.Get(d.PinChanges("vcpupin", "0-1023"))(t)
	sched := must.Get(d.SchedChanges("vcpusched", "fifo:1"))(t)
	began := time.Now()
	must.Get(d.Apply(append(pins, sched...), nil, Host{}))(t)
	if g := d.Guest(); len(g.Pins) != 1024 || len(g.Sched) != 1024 {
		t.Errorf("%d pins, %d schedulers", len(g.Pins), len(g.Sched))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("2048 edits took %v", took)
	}
}
