package traffic

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

// Of a 6.12 kernel, while it ran and after.
const pktgenDevice = `Params: count 0  min_pkt_size: 60  max_pkt_size: 60
     frags: 0  delay: 0  clone_skb: 0  ifname: eth0@mpps.77.0
     flows: 0 flowlen: 0
     queue_map_min: 0  queue_map_max: 0
     dst_min: 198.19.0.1  dst_max: 198.19.0.1
     src_min: 198.18.0.1  src_max: 198.18.0.4
     src_mac: 52:54:00:00:01:00 dst_mac: 52:54:00:00:02:00
     udp_src_min: 1024  udp_src_max: 1028  udp_dst_min: 9  udp_dst_max: 9
     src_mac_count: 0  dst_mac_count: 0
     Flags: IPSRC_RND  NO_TIMESTAMP  
Current:
     pkts-sofar: 100000  errors: 3
     started: 623913381008us  stopped: 623913396439us idle: 25us
     seq_num: 100001  cur_dst_mac_offset: 0  cur_src_mac_offset: 0
     cur_saddr: 198.18.0.3  cur_daddr: 198.19.0.1
     cur_udp_dst: 9  cur_udp_src: 1026
     cur_queue_map: 0
     flows: 0
Result: OK: 15430(c15405+d25) usec, 100000 (60byte,0frags)
  6480562pps 3110Mb/sec (3110669760bps) errors: 7
`

func TestPktgenState(t *testing.T) {
	s, err := parsePktgenState(pktgenDevice)
	if want := (pktgenState{100000, 3, 623913381008, 623913396439}); err != nil || s != want {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	for _, text := range []string{"", "Current:\n", strings.Replace(pktgenDevice, "100000  errors", "many  errors",
		1)} {
		if s, err := parsePktgenState(text); err == nil {
			t.Errorf("%q was taken for %+v", text, s)
		}
	}
	names := threadDevices("Running: eth0@mpps.77.0 \nStopped: eth4@0 eth5 \nResult: OK: add_device=eth0@mpps.77.0\n")
	must.Hold(t, slices.Equal(names, []string{"eth0@mpps.77.0", "eth4@0", "eth5"}), "devices %q", names)
	must.Equal(t, pktgenAhead(1000, 999*time.Millisecond), pktgenFirstFrames,
		"within the first second the count is frames ahead")
	must.Equal(t, pktgenAhead(2_000_000, 2*time.Second), 4_000_000, "at a million a second the count is frames ahead")
	for name, want := range map[string]int{pktgenName("eth0", 77, 3): 77, "eth4@0": 0, "eth5": 0, "eth0@mpps": 0} {
		must.Equal(t, pktgenOwner(name), want, "%s belongs to process", name)
	}
}

func TestPktgenSettings(t *testing.T) {
	c := Config{CPUs: []int{0, 1}, Rate: 300e3, Count: 7, Clone: 2, Burst: 4, Method: Pktgen, Frame: Frame{
		Size: 128, Src: AddrRange{First: netip.MustParseAddr("198.18.0.254"), Count: 4},
		SrcPort: PortRange{First: 1024, Count: 4},
		DstMAC:  net.HardwareAddr{2, 0, 0, 0, 0, 2}, SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1},
	}}
	c.Frame = c.Frame.withDefaults()
	got := strings.Join(c.pktgenSettings(1), "\n")
	for _, want := range []string{
		"count 3", "pkt_size 124", "delay 6667", "clone_skb 2", "burst 4", "src_max 198.18.1.1", "udp_src_min 1024",
		"udp_src_max 1028",
		"udp_dst_min 10", "dst_mac 02:00:00:00:00:02", "flag IPSRC_RND",
	} {
		must.Hold(t, slices.Contains(strings.Split(got, "\n"), want), "%q is not in:\n%s", want, got)
	}
	if err := c.checkPktgen(); err != nil || c.numbered() {
		t.Errorf("numbered %v: %v", c.numbered(), err)
	}
	for i, change := range []func(*Config){
		func(c *Config) { c.Discard = true }, func(c *Config) { c.Frame.VLAN = 5 },
		func(c *Config) { c.Frame.DstPort.First = 7 },
		func(c *Config) { c.Frame.SrcPort = PortRange{First: 65535, Count: 1} }, func(c *Config) { c.Rate = 0.1 },
		func(c *Config) { c.Clone = -1 },
	} {
		bad := c
		change(&bad)
		must.Is(t, bad.checkPktgen(), ErrConfig, "%d", i)
	}
}

// pktgenFrame is a frame as pktgen sent it, to be numbered.
func pktgenFrame(t *testing.T, worker int, seq uint32) []byte {
	t.Helper()
	b, err := hex.DecodeString("525400000200525400000100" + "0800" + "4500002e00000000201100" + "00" +
		"c6120001c6130001" +
		"04000009001a0000" + "be9be955" + "00000000" + "0000000000000000" + "0000")
	must.Need(t, err == nil && len(b) == 60, "%d bytes: %v", len(b), err)
	p := b[etherTypeAt:]
	binary.BigEndian.PutUint16(p[atDstPort:], uint16(pktgenPort+worker))
	binary.BigEndian.PutUint32(p[atPktgenSeq:], seq)
	return b
}

func TestParsePktgen(t *testing.T) {
	b := pktgenFrame(t, 2, 4711)
	if got, ok := parsePktgen(b); !ok || got.stream != 2 || got.seq != 4710 || got.stamp != 0 {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := parse(b); ok {
		t.Error("pktgen's frame was taken for one of ours")
	}
	ours := Frame{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6)}.withDefaults().template(1)
	if _, ok := parsePktgen(ours); ok {
		t.Error("our frame was taken for pktgen's")
	}
}

// TestPktgenQueues: every worker has its own transmit queue, as far as there are queues.
func TestPktgenQueues(t *testing.T) {
	for _, c := range []struct {
		worker, queues int
		want           []string
	}{{0, 0, nil}, {3, 1, nil}, {0, 4, []string{"queue_map_max 0", "queue_map_min 0"}},
		{5, 4, []string{"queue_map_max 1", "queue_map_min 1"}}} {
		if got := queueMap(c.worker, c.queues); !slices.Equal(got, c.want) {
			t.Errorf("worker %d of %d queues: %v, expected %v", c.worker, c.queues, got, c.want)
		}
	}
}

// TestWorkerCPUs: one worker for each queue, each on a dedicated CPU, and of different queues where there is a choice.
func TestWorkerCPUs(t *testing.T) {
	many := make([]int, 2*MaxWorkers)
	for i := range many {
		many[i] = i
	}
	for _, c := range []struct {
		allowed []int
		queues  int
		want    []int
	}{
		{[]int{0, 1, 2, 3}, 1, []int{0}},
		{[]int{3, 4}, 0, []int{3}},
		{[]int{0, 1, 2, 3}, 2, []int{0, 1}},
		{[]int{0, 1}, 9, []int{0, 1}},
		{[]int{0, 2, 4, 5}, 2, []int{0, 5}},
		{[]int{0, 4, 8, 9}, 4, []int{0, 9, 4, 8}},
		{many, 4 * MaxWorkers, many[:MaxWorkers]},
	} {
		if got := WorkerCPUs(c.allowed, c.queues); !slices.Equal(got, c.want) {
			t.Errorf("%d queues, CPUs %v: %v, expected %v", c.queues, c.allowed[:min(8, len(c.allowed))], got, c.want)
		}
	}
}

// TestSysfsTxQueues: the directories count, unless they are those of another namespace's interface.
func TestSysfsTxQueues(t *testing.T) {
	sys := t.TempDir()
	dir := filepath.Join(sys, "class/net/eth0")
	for _, queue := range []string{"tx-0", "tx-1", "rx-0"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "queues", queue), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "ifindex"), []byte("7\n"), 0o644))
	for index, want := range map[int]int{7: 2, 8: 0} {
		must.Equal(t, sysfsTxQueues(sys, Device{Endpoint: Endpoint{Iface: "eth0"}, Index: index}), want,
			"index %d: queues", index)
	}
	must.Equal(t, sysfsTxQueues(sys, Device{Endpoint: Endpoint{Iface: "eth1"}, Index: 7}), 0,
		"an interface that is not there: queues")
}
