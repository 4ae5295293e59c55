package rig

import (
	"encoding/hex"
	"net"
	"net/netip"
	"testing"

	"mpps/internal/must"
)

// TestARP: a reply as a Linux host sent it, and what is written is read back.
func TestARP(t *testing.T) {
	frame := must.Get(hex.DecodeString("fe6d7000010a" + "525400000a01" + "0806" + "0001" + "0800" + "06" + "04" +
		"0002" + "525400000a01" + "c61200fe" + "fe6d7000010a" + "00000000"))(t)
	a, ok := parseARP(frame)
	if !ok || a.op != arpReply || a.from.String() != "52:54:00:00:0a:01" || a.sender.String() != "198.18.0.254" ||
		a.of.String() != "0.0.0.0" {
		t.Errorf("%+v, %v", a, ok)
	}
	to := must.Get(net.ParseMAC("fe:6d:70:00:01:0a"))(t)
	for _, op := range []uint16{arpRequest, arpReply} {
		a.op, a.of = op, netip.MustParseAddr("198.19.0.1")
		b := arpFrame(to, a)
		if got, ok := parseARP(b); !ok || len(b) != 60 || got.op != op || got.sender != a.sender || got.of != a.of ||
			got.from.String() != a.from.String() {
			t.Errorf("%+v, %v in %d bytes", got, ok, len(b))
		}
	}
	for _, cut := range [][]byte{nil, frame[:41], append(append([]byte{}, frame[:12]...), make([]byte, 48)...)} {
		if a, ok := parseARP(cut); ok {
			t.Errorf("%x was taken for %+v", cut, a)
		}
	}
}
