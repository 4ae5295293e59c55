package probe

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestStageOf(t *testing.T) {
	for _, c := range []struct{ name, module, stage string }{
		{"br_handle_frame", "bridge", "bridge"}, {"br_handle_frame", "", "bridge"},
		{"br_nf_pre_routing", "", "netfilter"}, {"nft_do_chain", "nf_tables", "netfilter"},
		{"ebt_do_table", "ebtables", "netfilter"}, {"nf_conntrack_in", "", "conntrack"},
		{"__nf_conntrack_find_get", "nf_conntrack", "conntrack"}, {"nf_hook_slow", "", "netfilter"},
		{"vxlan_xmit", "vxlan", "overlay"}, {"vxlan_xmit", "", "overlay"}, {"tbf_enqueue", "sch_tbf", "qdisc"},
		{"tbf_dequeue", "", "qdisc"}, {"__qdisc_run", "", "qdisc"},
		{"ixgbe_poll", "ixgbe", "driver"}, {"mlx5e_napi_poll", "mlx5_core", "driver"}, {"igb_poll", "igb", "driver"},
		{"veth_poll", "", "driver"},
		{"tun_get_user", "tun", "tun"}, {"tun_net_xmit", "", "tun"}, {"handle_rx", "vhost_net", "vhost"},
		{"vhost_get_vq_desc", "", "vhost"}, {"virtqueue_add_split", "", "virtio"},
		{"vcpu_enter_guest", "kvm", "kvm"}, {"vmx_vcpu_run", "kvm_intel", "kvm"}, {"kvm_vcpu_halt", "", "kvm"},
		{"udp_queue_rcv_one_skb", "", "socket"}, {"packet_rcv", "", "socket"},
		{"native_queued_spin_lock_slowpath", "", "lock"}, {"__pv_queued_spin_lock_slowpath", "", "lock"},
		{"rep_movs_alternative", "", "copy"}, {"_copy_to_iter", "", "copy"},
		{"pv_native_safe_halt", "", "idle"}, {"cpu_startup_entry", "", "idle"},
		{"bpf_prog_6deef7357e7b4530_filter", "bpf", "bpf"},
		{"_raw_spin_lock", "", ""}, {"kmem_cache_alloc_noprof", "", ""}, {"ext4_file_write_iter", "ext4", ""},
		{"x", "", ""},
	} {
		must.Equal(t, stageOf(c.name, c.module), c.stage, "%s [%s]", c.name, c.module)
	}
}

const listing = `ffffffff81000000 T _stext
ffffffff81000100 t nft_do_chain	[nf_tables]
ffffffff81000080 T br_handle_frame
ffffffff81000180 D some_data
ffffffff81000200 T native_queued_spin_lock_slowpath
ffffffff81000280 T _raw_spin_lock
ffffffff81000300 T sch_direct_xmit
ffffffff81000400 T kmem_cache_alloc
ffffffff81000500 T do_idle
`

func known(t *testing.T) symbols {
	t.Helper()
	s := must.Get(parseSymbols(strings.NewReader(listing)))(t)
	return s
}

func TestSymbols(t *testing.T) {
	s := known(t)
	for address, name := range map[uint64]string{
		0xffffffff81000000: "_stext", 0xffffffff8100007f: "_stext", 0xffffffff81000080: "br_handle_frame",
		0xffffffff810000ff: "br_handle_frame", 0xffffffff810001ff: "nft_do_chain",
		0xffffffff81ffffff: "do_idle",
	} {
		must.Equal(t, s[s.find(address)].name, name, "%x", address)
	}
	must.Equal(t, s.find(0xffffffff80ffffff), -1, "before the first")
	if _, err := parseSymbols(strings.NewReader(
		"0000000000000000 T _stext\n0000000000000000 T _text\n")); err != errHiddenAddresses {
		t.Errorf("hidden addresses: %v", err)
	}
	must.Fail(parseSymbols(strings.NewReader("wrong T _stext\n")))(t, "nonsense: expected an error")
}

// TestSample has stacks, innermost function first, and the stage of each.
func TestSample(t *testing.T) {
	const nft, bridge, slow, raw, xmit, alloc, idle = 0xffffffff81000104, 0xffffffff81000084, 0xffffffff81000204,
		0xffffffff81000284, 0xffffffff81000304, 0xffffffff81000404, 0xffffffff81000504
	const mark = ^uint64(127) // PERF_CONTEXT_KERNEL
	for _, c := range []struct {
		name     string
		misc     uint16
		stack    []uint64
		stage    string
		function string
	}{
		{"a rule under the bridge", 1, []uint64{nft, bridge}, "netfilter", "nft_do_chain"},
		{"memory for the bridge", 1, []uint64{alloc, bridge}, "bridge", "kmem_cache_alloc"},
		{"waits for a lock", 1, []uint64{slow, raw, xmit, bridge}, "lock", "sch_direct_xmit"},
		{"takes a free lock", 1, []uint64{raw, xmit}, "qdisc", "_raw_spin_lock"},
		{"of nobody", 1, []uint64{alloc}, "other", "kmem_cache_alloc"},
		{"idle", 1, []uint64{alloc, idle}, "", ""},
		{"a program", 2, []uint64{0x400000}, "", ""},
		{"a guest", 4, []uint64{alloc}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &profile{known: known(t), cache: map[uint64]int{}}
			p.reset()
			body := []byte{}
			word := func(w uint64) {
				for i := range 8 {
					body = append(body, byte(w>>(8*i)))
				}
			}
			word(c.stack[0])
			word(uint64(len(c.stack) + 1))
			word(mark)
			for _, a := range c.stack {
				word(a)
			}
			p.sample(3, c.misc, body)
			p.sample(3, 2, nil)
			entries := p.entries()
			if c.stage == "" {
				must.Equal(t, len(entries), 0, "found %+v", entries)
				return
			}
			must.Hold(t, len(entries) == 1 && entries[0].Stage == c.stage && entries[0].Symbol == c.function &&
				entries[0].Share == 0.5 && entries[0].CPU == 3,
				"found %+v, expected half of the time in %s, %s", entries, c.stage, c.function)
			if locks := p.locks(1); (c.stage == "lock") != (len(locks) == 1) {
				t.Errorf("waits for locks: %+v", locks)
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	var w probeWaits
	w.Steps[stepOf(1000)] = 98
	w.Steps[stepOf(40_000)] = 2
	w.Longest = 41_000
	for part, want := range map[float64]float64{0.5: 1.023, 0.98: 1.023, 0.99: 40.959, 1: 40.959} {
		must.Equal(t, quantile(w, part), want, "%v of the waits, µs", part)
	}
	w.Steps[len(w.Steps)-1]++
	w.Longest = 3e9
	must.Equal(t, quantile(w, 1), 3e6, "the longest")
	for _, ns := range []uint64{0, 1, 3, 4, 5, 7, 8, 100, 1000, 1023, 1024, 5_000_000} {
		s := stepOf(ns)
		if upper(s) < ns || s > 0 && upper(s-1) >= ns {
			t.Errorf("%d ns is in step %d, which ends at %d", ns, s, upper(s))
		}
	}
}

// stepOf returns the program's step for a number of nanoseconds (step in bpf/probe.bpf.c).
func stepOf(ns uint64) int {
	if ns < 4 {
		return int(ns)
	}
	log := 0
	for n := ns; n > 1; n >>= 1 {
		log++
	}
	return 4*(log-1) + int(ns>>(log-2)&3)
}

func TestPauseAfter(t *testing.T) {
	for _, c := range []struct {
		window, busiest time.Duration
		pause           bool
	}{
		{time.Second, 9 * time.Millisecond, false}, {time.Second, 11 * time.Millisecond, true},
		{20 * time.Millisecond, 10 * time.Millisecond, true},
		{20 * time.Millisecond, time.Millisecond, false}, {time.Millisecond, time.Millisecond, false},
	} {
		pause := pauseAfter(c.window, c.busiest, 0.01)
		must.Hold(t, (pause > 0) == c.pause && pause <= longest, "%v of %v: a pause of %v", c.busiest, c.window, pause)
		if pause > 0 && pause < longest && float64(c.busiest+turnCost)/float64(c.window+pause) > 0.0101 {
			t.Errorf("%v of %v and then a pause of %v is more than a hundredth", c.busiest, c.window, pause)
		}
	}
}

// TestWithoutBTF: without BTF there is still a profile, if permitted, and what is missing is reported.
func TestWithoutBTF(t *testing.T) {
	p := Start(Config{CPUs: setting.CPUs(0), btf: errors.New("no such file")})
	p.Follow([]int{1})
	time.Sleep(30 * time.Millisecond)
	s := p.Take()
	must.Try(t, p.Close())
	must.Hold(t, !s.Traced && len(s.Drops)+len(s.Delays) <= 0 && len(s.Unseen) != 0 &&
		strings.Contains(s.Unseen[0].Why, "CONFIG_DEBUG_INFO_BTF") && strings.Contains(s.Unseen[0].Why, "no such file"),
		"found %+v", s)
	if os.Geteuid() == 0 && len(s.Unseen) != 1 {
		t.Errorf("a profile needs no BTF: %+v", s.Unseen)
	}
}
