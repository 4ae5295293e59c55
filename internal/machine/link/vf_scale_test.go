package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// vfInfo returns the IFLA_VF_INFO of a VF in the attributes and order of Linux 5.1 and later (net/core/rtnetlink.c,
// rtnl_fill_vfinfo): 196 bytes, 296 with counters.
func vfInfo(v *netlink.AttributeEncoder, number int, counters bool) {
	n := uint32(number)
	v.Bytes(unix.IFLA_VF_MAC, append(words(n), append([]byte{0x52, 0x54, 0, 0, byte(number >> 8), byte(number)},
		make([]byte, 26)...)...))
	v.Bytes(unix.IFLA_VF_BROADCAST, append([]byte{255, 255, 255, 255, 255, 255}, make([]byte, 26)...))
	v.Bytes(unix.IFLA_VF_VLAN, words(n, 100, 0))
	v.Bytes(unix.IFLA_VF_RATE, words(n, 0, n))
	v.Bytes(unix.IFLA_VF_TX_RATE, words(n, n))
	v.Bytes(unix.IFLA_VF_SPOOFCHK, words(n, 1))
	v.Bytes(unix.IFLA_VF_LINK_STATE, words(n, 0))
	v.Bytes(unix.IFLA_VF_RSS_QUERY_EN, words(n, 0))
	v.Bytes(unix.IFLA_VF_TRUST, words(n, 0))
	v.Nested(unix.IFLA_VF_VLAN_LIST, func(list *netlink.AttributeEncoder) error {
		list.Bytes(unix.IFLA_VF_VLAN_INFO, words(n, 100, 0, 0x81))
		return nil
	})
	if counters {
		v.Nested(unix.IFLA_VF_STATS, func(stats *netlink.AttributeEncoder) error {
			for _, which := range []uint16{0, 1, 2, 3, 4, 5, 7, 8} {
				stats.Bytes(which, binary.NativeEndian.AppendUint64(nil, uint64(which)*1000+uint64(number)))
			}
			return nil
		})
	}
}

// portMessage returns the kernel's reply about a PF with some VFs. If the list is too long for its length field, the
// length wraps as in the kernel (nla_nest_end).
func portMessage(t testing.TB, index, vfs int, mask uint32) []byte {
	t.Helper()
	list := netlink.NewAttributeEncoder()
	for n := range vfs {
		list.Nested(unix.IFLA_VF_INFO, func(v *netlink.AttributeEncoder) error {
			vfInfo(v, n, mask&rtextSkipStats == 0)
			return nil
		})
	}
	all := must.Get(list.Encode())(t)
	message := linkMessage(t, index, true, func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, fmt.Sprint("ens", index))
		e.Uint32(unix.IFLA_MTU, 1500)
		if mask&rtextVFs != 0 {
			e.Uint32(unix.IFLA_NUM_VF, uint32(vfs))
		}
	})
	if mask&rtextVFs == 0 {
		return message
	}
	const nested = 1 << 15
	message = binary.NativeEndian.AppendUint16(message, uint16(len(all)+4))
	message = binary.NativeEndian.AppendUint16(message, unix.IFLA_VFINFO_LIST|nested)
	return append(message, all...)
}

// kernel replies as Linux does, for some PFs with some VFs each. It records the requests.
type kernel struct {
	testing.TB
	pfs, vfs int
	answers  map[string][]byte
	longest  int
}

func (k *kernel) dial() *netlink.Conn {
	if k.answers == nil {
		k.answers = map[string][]byte{}
	}
	return nltest.Dial(func(asked []netlink.Message) ([]netlink.Message, error) {
		request := asked[0]
		index, mask := int(binary.NativeEndian.Uint32(request.Data[4:])), uint32(0)
		ad, err := netlink.NewAttributeDecoder(request.Data[unix.SizeofIfInfomsg:])
		if err != nil {
			return nil, err
		}
		for ad.Next() {
			if ad.Type() == unix.IFLA_EXT_MASK {
				mask = ad.Uint32()
			}
		}
		answer := func(index int) netlink.Message {
			key := fmt.Sprint(index, mask)
			if k.answers[key] == nil {
				k.answers[key] = portMessage(k, index, k.vfs, mask)
				k.longest = max(k.longest, len(k.answers[key]))
			}
			return netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWLINK, Sequence: request.Header.Sequence,
				PID: nltest.PID}, Data: k.answers[key]}
		}
		if request.Header.Flags&netlink.Dump != netlink.Dump {
			return []netlink.Message{answer(index)}, nil
		}
		must.Hold(k, mask&rtextVFs == 0, "the whole table was asked for with the details of virtual functions")
		var all []netlink.Message
		for i := range k.pfs {
			all = append(all, answer(i+2))
		}
		return nltest.Multipart(append(all,
			netlink.Message{Header: netlink.Header{Type: netlink.Done, Sequence: request.Header.Sequence,
				PID: nltest.PID}}))
	})
}

// The link table is read without VFs, and each PF on its own.
func TestManyVFsAreAskedForByPort(t *testing.T) {
	k := &kernel{TB: t, pfs: 8, vfs: 127}
	conn := k.dial()
	defer conn.Close()
	devices, err := DumpLinks(conn)
	must.Need(t, err == nil && len(devices) == 8, "%d devices (%v), want 8", len(devices), err)
	began := treetest.CPUTime(t)
	seen := 0
	for _, d := range devices {
		vfs, counted, err := linkWithVFs(conn, d.Index, k.vfs, true)
		must.Need(t, err == nil && counted, "%s: %v, counted %v", d.Name, err, counted)
		for i, v := range vfs {
			want := virtual{
				index: i, mac: fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255), vlan: 100, maxRate: i,
				spoofCheck: true, linkState: "auto", hasRate: true,
				traffic: facts.VFTraffic{
					RxPackets: uint64(i), TxPackets: 1000 + uint64(i), RxBytes: 2000 + uint64(i),
					TxBytes: 3000 + uint64(i), Broadcast: 4000 + uint64(i),
					Multicast: 5000 + uint64(i), RxDropped: 7000 + uint64(i), TxDropped: 8000 + uint64(i),
				},
			}
			must.Need(t, v == want, "%s, function %d:\ngot  %+v\nwant %+v", d.Name, i, v, want)
		}
		seen += len(vfs)
	}
	if took := treetest.CPUTime(t) - began; seen != 1016 || took > 300*time.Millisecond {
		t.Errorf("%d functions in %v of CPU time, want 1016 in less than 300 ms", seen, took)
	}
	must.Hold(t, k.longest >= 32<<10,
		"the longest message had %d bytes: expected one that a buffer of 32 KiB does not hold", k.longest)
}

// With more VFs than one attribute can hold, the kernel wraps its length. Such a reply is rejected, and not requested
// if the number is known beforehand.
func TestMoreVFsThanAMessageHolds(t *testing.T) {
	for _, c := range []struct {
		has, says int // what there is, and what sysfs said before
		counted   bool
		fails     bool
	}{
		{200, 200, true, false}, {201, 201, false, false}, {320, 320, false, false}, // 296 and 196 bytes each
		{321, 321, false, true}, {2048, 2048, false, true},
		// created meanwhile
		{222, 7, true, true}, {335, 7, true, true}, {400, 7, true, true}, {670, 250, false, true},
	} {
		k := &kernel{TB: t, pfs: 1, vfs: c.has}
		conn := k.dial()
		vfs, counted, err := linkWithVFs(conn, 2, c.says, true)
		conn.Close()
		switch {
		case c.fails && err == nil:
			t.Errorf("%d functions, %d expected: %d were believed", c.has, c.says, len(vfs))
		case c.fails && !errors.Is(err, errManyVFs):
			// after a wrapped list comes garbage
			if !strings.Contains(err.Error(), "link message") && !strings.Contains(err.Error(), "no answer") {
				t.Errorf("%d functions, %d expected: %v", c.has, c.says, err)
			}
		case !c.fails && (err != nil || counted != c.counted || len(vfs) != c.has):
			t.Errorf("%d functions: %d, counted %v (%v)", c.has, len(vfs), counted, err)
		}
	}
}

func BenchmarkLinksOf8x127VFs(b *testing.B) {
	k := &kernel{TB: b, pfs: 8, vfs: 127}
	conn := k.dial()
	defer conn.Close()
	for b.Loop() {
		devices, err := DumpLinks(conn)
		must.Do(b, err)
		for _, d := range devices {
			if _, _, err := linkWithVFs(conn, d.Index, k.vfs, true); err != nil {
				b.Fatal(err)
			}
		}
	}
}
