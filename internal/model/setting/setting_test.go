package setting

import (
	"encoding/json"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestAddressRoundTrip(t *testing.T) {
	for _, text := range []string{
		"sysctl:net.core.dev_weight",
		"nic-ring:eth0/rx",
		"domain:vm1/interface/52:54:00:00:00:01/driver.queues",
		"thread-affinity:vm1/vhost/52:54:00:00:00:01/0",
	} {
		a, err := ParseAddress(text)
		must.Succeed(t, err, "%s", text)
		must.Hold(t, a.String() == text, "%s came back as %s", text, a)
	}
}

func TestAddressRefuses(t *testing.T) {
	for _, text := range []string{
		"", "sysctl", "sysctl:", "nonsense:x", "sysfs:class/../../etc/passwd", "sysfs:a/./b", "nic-ring:eth0\n/rx",
	} {
		if a, err := ParseAddress(text); err == nil {
			t.Errorf("%q was read as %v", text, a)
		}
	}
}

func TestAddressKeysJSONMaps(t *testing.T) {
	in := map[Address]Reading{Of(Sysctl, "net.core.dev_weight"): Value("64")}
	text := must.Get(json.Marshal(in))(t)
	var out map[Address]Reading
	must.Do(t, json.Unmarshal(text, &out))
	if got := out[Of(Sysctl, "net.core.dev_weight")]; !got.Same(Value("64")) {
		t.Errorf("%s came back as %v", text, got)
	}
}

func TestCPUs(t *testing.T) {
	cases := []struct{ list, canonical, mask string }{
		{"", "", "0"},
		{"0", "0", "1"},
		{"3,1,2,2", "1-3", "e"},
		{"0-3,8", "0-3,8", "10f"},
		{"31-32", "31-32", "1,80000000"},
		{"64", "64", "1,00000000,00000000"},
	}
	for _, c := range cases {
		set, err := ParseCPUs(c.list)
		if err != nil {
			t.Errorf("%q: %v", c.list, err)
			continue
		}
		must.Equal(t, set.String(), c.canonical, "%q", c.list)
		must.Equal(t, set.Mask(), c.mask, "mask of %q", c.list)
		back, err := ParseCPUMask(c.mask)
		must.Hold(t, err == nil && back.Equal(set), "mask %q is %v (%v), expected %v", c.mask, back, err, set)
	}
	for _, bad := range []string{"a", "1-", "-1", "3-1", "0-99999999", "1,,2", "16384"} {
		if set, err := ParseCPUs(bad); err == nil {
			t.Errorf("%q was read as %v", bad, set)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	for _, seed := range []string{"0-3,8", "", "31-32", "0-16383"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		set, err := ParseCPUs(list)
		if err != nil {
			return
		}
		again, err := ParseCPUs(set.String())
		must.Hold(t, err == nil && again.Equal(set), "%q became %q became %v, %v", list, set, again, err)
		masked, err := ParseCPUMask(set.Mask())
		if err != nil || !masked.Equal(set) {
			t.Errorf("%q has mask %q which is %v, %v", list, set.Mask(), masked, err)
		}
	})
}

func TestWantMet(t *testing.T) {
	cases := []struct {
		want Want
		have Reading
		met  bool
	}{
		{Exact("256"), Value("256"), true},
		{Exact("256"), Value("512"), false},
		{Least(4), Value("8"), true},
		{Least(4), Value("2"), false},
		{Most(256), Value("255"), true},
		{Most(256), Value("1024"), false},
		{Any("1", "Y"), Value("Y"), true},
		{Any("1", "Y"), Value("N"), false},
		{NotThere(), Missing("gone"), true},
		{NotThere(), Value("1"), false},
		{NotThere(), CouldNotTell("no root"), false},
		{Exact("256"), CouldNotTell("no root"), false},
		{Least(4), Value("many"), false},
	}
	for _, c := range cases {
		must.Equal(t, c.want.Met(c.have), c.met, "%v met by %v", c.want, c.have)
	}
}

func TestCanonical(t *testing.T) {
	cases := []struct {
		kind      Kind
		raw, want string
	}{
		{NICFlowHash, "sdnf", "sdfn"},
		{NICFlowHash, "sd", "sd"},
		{NICFeature, "1", "on"}, {NICFlag, "0", "off"},
		{NICRing, " 0x100\n", "256"},
		{NICCoalesce, "OFF", "off"},
		{IRQAffinity, "3,1-2", "1-3"},
		{Sysctl, "4096\t87380  6291456\n", "4096 87380 6291456"},
	}
	for _, c := range cases {
		got, err := Kinds[c.kind].Canonical(c.raw)
		must.Hold(t, err == nil && got == c.want, "%s %q is %q (%v), expected %q", c.kind, c.raw, got, err, c.want)
	}
	if _, err := Exact("many").Canonical(Of(NICRing, "eth0", "rx")); err == nil ||
		!strings.Contains(err.Error(), "nic-ring:eth0/rx") {
		t.Errorf("a ring of many descriptors: %v, expected an error that names the address", err)
	}
}

func TestSysctlPath(t *testing.T) {
	for name, want := range map[string]string{
		"net.core.dev_weight": "net/core/dev_weight", "net/core/dev_weight": "net/core/dev_weight",
		"net.ipv4.conf.eth0/100.rp_filter": "net/ipv4/conf/eth0.100/rp_filter",
		"net/ipv4/conf/eth0.100/rp_filter": "net/ipv4/conf/eth0.100/rp_filter",
	} {
		must.Equal(t, SysctlPath(name), want, "%s", name)
	}
}
