package setting

import (
	"strings"
	"testing"

	"mpps/internal/must"
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
		must.Hold(t, err == nil && found == want, "%q: found %q, %v; expected %q", raw, found, err, want)
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

// TestOVSDB: only known keys may be set, to plain decimal numbers within their range.
func TestOVSDB(t *testing.T) {
	for _, c := range []struct {
		key, value string
		may        bool
	}{
		{"max-idle", "500", true}, {"max-idle", "499", false}, {"max-idle", "3600000", true},
		{"max-idle", "3600001", false}, {"max-idle", "", false}, {"max-idle", "+500", false},
		{"max-idle", "0500", false}, {"max-idle", " 500", false}, {"max-idle", "0x500", false},
		{"max-idle", "5e3", false}, {"max-idle", "99999999999999999999", false},
		{"flow-limit", "200000", true}, {"flow-limit", "0", false}, {"flow-limit", "-1", false},
		{"n-handler-threads", "1", true}, {"n-handler-threads", "0", false}, {"n-handler-threads", "1025", false},
		{"hw-offload", "true", false}, {"", "1", false}, {"max_idle", "1000", false}, {"dpdk-extra", "1", false},
	} {
		if err := CheckOVSDB(c.key, c.value); (err == nil) != c.may {
			t.Errorf("other_config:%s=%q: %v", c.key, c.value, err)
		}
	}
}

func TestDriver(t *testing.T) {
	for raw, want := range map[string]string{
		"igbvf": "igbvf", " vfio-pci\n": "vfio-pci", "none": "none",
		"vfio-pci  override:vfio-pci": "vfio-pci override:vfio-pci",
		"none override:mlx5_core":     "none override:mlx5_core",
		"":                            "", "a b": "", "override:x": "", "a override:": "", "../x": "",
		"a override:b override:c": "",
	} {
		got, err := Kinds[PCIDriver].Canonical(raw)
		must.Hold(t, got == want && (err == nil) == (want != ""), "%q: %q, %v; expected %q", raw, got, err, want)
		if err == nil {
			if back := DriverValue(Driver(got)); back != got {
				t.Errorf("%q comes back as %q", got, back)
			}
		}
	}
}

func TestQdisc(t *testing.T) {
	for raw, restorable := range map[string]bool{
		"noqueue": true, "default fq_codel": true, "default mq fq_codel": true, "default mq": false,
		"pfifo_fast 8001:": true, "mq 1: fq_codel": true,
		"mq 1:": false, "fq_codel 8001:": false, "htb 1:": false,
	} {
		q, err := ParseQdisc(" " + raw + "\n")
		if err != nil || q.String() != raw || (q.Restorable() == nil) != restorable {
			t.Errorf("%q: %+v, %v; can be put back: %v", raw, q, err, q.Restorable())
		}
	}
	for _, raw := range []string{
		"", "default", "default noqueue", "noqueue 1:", "fq_codel", "fq_codel 0:", "fq_codel 10000:", "fq_codel x:",
		"mq 1: fq_codel fq", "pfifo_fast 1: fq", "FQ 1:", "../x 1:", "default mq a/b",
	} {
		if found, err := Kinds[RootQdisc].Canonical(raw); err == nil || found != "" {
			t.Errorf("%q: %q, expected a refusal", raw, found)
		}
	}
	for raw, kind := range map[string]string{"default fq": "fq", "default mq fq_codel": "fq_codel",
		"mq 1: pfifo_fast": "pfifo_fast", "pfifo_fast 1:": "", "noqueue": ""} {
		if q, err := ParseQdisc(raw); err != nil || q.ByDefault() != kind {
			t.Errorf("%q comes back by net.core.default_qdisc %q, %v; expected %q", raw, q.ByDefault(), err, kind)
		}
	}
}
