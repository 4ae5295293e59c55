package ethtool

import (
	"reflect"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func encode(t testing.TB, attributes func(*netlink.AttributeEncoder)) []byte {
	t.Helper()
	e := netlink.NewAttributeEncoder()
	attributes(e)
	data := must.Get(e.Encode())(t)
	return data
}

func TestCoalesceTellsOnlyWhatTheDriverHas(t *testing.T) {
	values := must.Get(coalesceGroup.decode(encode(t, func(e *netlink.AttributeEncoder) {
		e.Uint32(unix.ETHTOOL_A_COALESCE_RX_USECS, 3)
		e.Uint8(unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, 1)
		e.Uint32(unix.ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL, 9)
		e.Uint32(200, 1) // an attribute of a later kernel
	})))(t)
	if want := map[string]uint32{"rx-usecs": 3, "adaptive-rx": 1, "sample-interval": 9}; !reflect.DeepEqual(values,
		want) {
		t.Errorf("%v, want %v", values, want)
	}
	must.Equal(t, coalesceGroup.value("adaptive-rx", 1), "on", "adaptive-rx 1 reads")
	for field, bad := range map[string]string{"adaptive-rx": "3", "rx-usecs": "4294967296"} {
		if n, err := coalesceGroup.parse(field, bad); err == nil {
			t.Errorf("%s %s: expected an error, found %d", field, bad, n)
		}
	}
}

// TestGroupsKeepTheKernelsOrder pins attribute numbers to names: both interfaces depend on the order of the lists.
func TestGroupsKeepTheKernelsOrder(t *testing.T) {
	for _, c := range []struct {
		g     group
		field string
		want  int
	}{
		{ringGroup, "rx-max", unix.ETHTOOL_A_RINGS_RX_MAX}, {ringGroup, "tx", unix.ETHTOOL_A_RINGS_TX},
		{channelGroup, "combined-max", unix.ETHTOOL_A_CHANNELS_COMBINED_MAX},
		{channelGroup, "combined", unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT},
		{coalesceGroup, "adaptive-tx", unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX},
		{coalesceGroup, "rx-frames", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES},
		{coalesceGroup, "tx-usecs-high", unix.ETHTOOL_A_COALESCE_TX_USECS_HIGH},
		{coalesceGroup, "sample-interval", unix.ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL},
	} {
		for i, field := range c.g.fields {
			if field == c.field && i+2 != c.want {
				t.Errorf("%s %s is attribute %d, want %d", c.g.what, field, i+2, c.want)
			}
		}
	}
}

func bitset(list bool, bits map[uint32]string, on ...string) func(*netlink.AttributeEncoder) error {
	return func(set *netlink.AttributeEncoder) error {
		set.Flag(unix.ETHTOOL_A_BITSET_NOMASK, list)
		set.Nested(unix.ETHTOOL_A_BITSET_BITS, func(all *netlink.AttributeEncoder) error {
			for index, name := range bits {
				all.Nested(unix.ETHTOOL_A_BITSET_BITS_BIT, func(bit *netlink.AttributeEncoder) error {
					bit.Uint32(unix.ETHTOOL_A_BITSET_BIT_INDEX, index)
					bit.String(unix.ETHTOOL_A_BITSET_BIT_NAME, name)
					for _, o := range on {
						bit.Flag(unix.ETHTOOL_A_BITSET_BIT_VALUE, o == name)
					}
					return nil
				})
			}
			return nil
		})
		return nil
	}
}

func TestFeatures(t *testing.T) {
	all := map[uint32]string{0: "tx-scatter-gather", 1: "highdma", 2: "rx-gro", 3: "", 4: "tx-tcp-segmentation"}
	data := encode(t, func(e *netlink.AttributeEncoder) {
		e.Nested(unix.ETHTOOL_A_FEATURES_HW, bitset(false, all, "tx-scatter-gather"))
		e.Nested(unix.ETHTOOL_A_FEATURES_WANTED, bitset(true, map[uint32]string{0: "tx-scatter-gather"}))
		e.Nested(unix.ETHTOOL_A_FEATURES_ACTIVE, bitset(true, map[uint32]string{1: "highdma"}))
		e.Nested(unix.ETHTOOL_A_FEATURES_NOCHANGE, bitset(false, all))
	})
	got := must.Get(decodeFeatures(data))(t)
	want := []featureState{
		{facts.Feature{Name: "tx-scatter-gather"}, true}, // wanted, not granted
		{facts.Feature{Name: "highdma", On: true, Fixed: true}, false},
		{facts.Feature{Name: "rx-gro", Fixed: true}, false},
		{facts.Feature{Name: "tx-tcp-segmentation", Fixed: true}, false},
	}
	must.Hold(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
}

func TestFlowHashLetters(t *testing.T) {
	bits, err := hashMask("sdfn")
	if err != nil || bits != 1<<4|1<<5|1<<6|1<<7 || hashLetters(bits) != "sdfn" {
		t.Errorf("sdfn is %#x (%v) and reads %q", bits, err, hashLetters(bits))
	}
	if bits, err := hashMask("sx"); err == nil {
		t.Errorf("sx: expected an error, found %#x", bits)
	}
}

func TestTellingCounters(t *testing.T) {
	for name, want := range map[string]bool{
		"rx_missed_errors": true, "rx_no_buffer_count": true, "rx_out_of_buffer": true, "rx_queue_3_drops": true,
		"rx_queue_63_drops": false, "rx_packets": false, "rx5_drops": true, "tx_timeout_count": true,
		"rx_64_bytes_phy": false,
	} {
		must.Equal(t, showsLoss(name), want, "%s kept", name)
	}
}

func FuzzEthtoolAnswers(f *testing.F) {
	f.Add(encode(f, func(e *netlink.AttributeEncoder) {
		e.Nested(unix.ETHTOOL_A_FEATURES_HW, bitset(false, map[uint32]string{0: "x"}, "x"))
	}))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = decodeFeatures(data)
		_, _ = coalesceGroup.decode(data)
	})
}

func TestParseRSS(t *testing.T) {
	words := []uint32{getRSS, 0, 4, 8, 1, 0, 3, 0, 3, 1, 0xaaaa, 0xbbbb}
	if r := parseRSS(words, 4); !reflect.DeepEqual(r, &facts.RSS{Entries: 4, Queues: []int{0, 1, 3}}) {
		t.Errorf("found %+v", r)
	}
	words[transformWord] = 1 | 1<<8 // Toeplitz, RXH_XFRM_SYM_XOR
	if r := parseRSS(words, 4); !r.Symmetric {
		t.Error("not symmetric")
	}
}
