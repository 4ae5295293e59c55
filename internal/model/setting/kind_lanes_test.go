package setting

import (
	"strings"
	"testing"
)

func TestCanonicalLanes(t *testing.T) {
	for raw, want := range map[string]string{
		" vnet1=4+4\tvnet0=0+4\n":         "vnet0=0+4 vnet1=4+4",
		"52:54:00:AB:00:01=8+8 a=0+1":     "52:54:00:ab:00:01=8+8 a=0+1",
		"a=b=3+2":                         "a=b=3+2", // a device may be called so
		"t=0255+1":                        "t=255+1",
		"t=0+256":                         "t=0+256",
		"idle":                            "idle",
		"vnet0=0+2 vnet1=0+2":             "vnet0=0+2 vnet1=0+2", // more guests than queues
		"52:54:00:00:00:01=0+1 vnet9=1+1": "52:54:00:00:00:01=0+1 vnet9=1+1",
	} {
		found, err := Kinds[QueueLanes].Canonical(raw)
		if err != nil || found != want {
			t.Errorf("%q: found %q, %v; expected %q", raw, found, err, want)
		}
		if again, err := Kinds[QueueLanes].Canonical(found); err != nil || again != found {
			t.Errorf("%q is not canonical: %q, %v", found, again, err)
		}
	}
}

func TestLanesRefused(t *testing.T) {
	for raw, says := range map[string]string{
		"": "expected lanes", "vnet0": "found no window", "vnet0=4": "another window", "vnet0=+4": "another window",
		"vnet0=4+":   "another window",
		"vnet0=-1+2": "another window", "vnet0=0+0": "from 0 to 255", "vnet0=255+2": "from 0 to 255",
		"vnet0=256+1":         "from 0 to 255",
		"vnet0=0+4 vnet0=4+4": "two of vnet0", "52:54=0+1": "an address that is none",
		"00:00:00:00:00:00:00:01=0+1": "an address that is none",
		"=0+1":                        "no device can have", "sixteen-letters-=0+1": "no device can have",
		"a/b=0+1": "no device can have", "..=0+1": "no device can have",
		"idle vnet0=0+1": "found no window", "52:54:00:00:00:0A=0+1 52:54:00:00:00:0a=1+1": "two of 52:54:00:00:00:0a",
	} {
		if found, err := Kinds[QueueLanes].Canonical(raw); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: found %q, %v; expected an error with %q", raw, found, err, says)
		}
	}
}
