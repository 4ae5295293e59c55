package link

import (
	"testing"

	"mpps/internal/model/facts"
)

// space is a configuration space with a power management capability at 0x40 and PCI Express after it.
func space(control uint16) string {
	config := make([]byte, configBytes)
	config[0x06], config[0x34] = 0x10, 0x40
	config[0x40], config[0x41] = 0x01, 0x70
	config[0x70] = 0x10
	config[0x78], config[0x79] = byte(control), byte(control>>8)
	return string(config)
}

func TestDeviceControl(t *testing.T) {
	cycle := []byte(space(0))
	cycle[0x41] = 0x40
	for _, c := range []struct {
		what    string
		config  string
		request int
		relaxed facts.Answer
	}{
		{"512, relaxed", space(2<<12 | 1<<4), 512, facts.Yes},
		{"4096, strict", space(5 << 12), 4096, facts.No},
		{"128", space(0), 128, facts.No},
		{"without root", space(2 << 12)[:64], 0, ""},
		{"a cycle", string(cycle), 0, ""},
		{"no capabilities", string(make([]byte, configBytes)), 0, ""},
		{"empty", "", 0, ""},
	} {
		if request, relaxed := deviceControl(c.config); request != c.request || relaxed != c.relaxed {
			t.Errorf("%s: %d, %q", c.what, request, relaxed)
		}
	}
}

func FuzzDeviceControl(f *testing.F) {
	f.Add(space(2 << 12))
	f.Fuzz(func(t *testing.T, config string) {
		if request, _ := deviceControl(config); request < 0 || request > 128<<7 {
			t.Errorf("%d bytes", request)
		}
	})
}
