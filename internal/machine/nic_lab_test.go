//go:build lab

package machine

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/machine/link"
	"mpps/internal/machine/netfilter"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// sh runs programs in the lab host, to compare their output with ours.
func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	must.Need(t, err == nil, "%s: %v\n%s", script, err, out)
	return strings.TrimSpace(string(out))
}

// takeStock reads the machine's network facts.
func takeStock(t *testing.T, m *Machine) *facts.Host {
	t.Helper()
	h := &facts.Host{}
	link.Inventory(patient(t), m.Tree, h)
	netfilter.Inventory(patient(t), m.Tree, h)
	return h
}

// byMAC finds a NIC by MAC address; the lab does not guarantee names.
func byMAC(t *testing.T, h *facts.Host, mac string) facts.NIC {
	t.Helper()
	for _, n := range h.NICs {
		if n.MAC == mac {
			return n
		}
	}
	t.Fatalf("no NIC %s among %d", mac, len(h.NICs))
	return facts.NIC{}
}

// shown returns the number after the nth occurrence of a label in ethtool's output.
func shown(t *testing.T, nth int, label, args string) string {
	t.Helper()
	return sh(t, fmt.Sprintf(`ethtool %s | awk -F: '{gsub(/^[ \t]+|[ \t]+$/,"",$1)} $1=="%s"{gsub(/[ \t]/,"",$2); if(n++==%d) print $2}'`, args, label, nth))
}

func TestDriversOfTheLab(t *testing.T) {
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	var before, after syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	start := time.Now()
	h := takeStock(t, m)
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	t.Logf("network and netfilter in %v, %v of CPU in user, %v in the kernel", time.Since(start),
		time.Duration(after.Utime.Nano()-before.Utime.Nano()), time.Duration(after.Stime.Nano()-before.Stime.Nano()))
	for _, u := range h.Unseen {
		t.Errorf("unseen: %s: %s", u.What, u.Why)
	}
	igb, virtio := byMAC(t, h, lab.MACigb0), byMAC(t, h, lab.MACvirtio)
	must.Hold(t, igb.Driver == "igb" && igb.Node == 1 && igb.SRIOV != nil && igb.SRIOV.Total == 7 &&
		igb.Channels != nil && igb.Channels.MaxCombined == 8 && igb.Rings != nil && igb.FlowHash["udp4"] != "" &&
		igb.Coalesce["rx-usecs"] != "" && len(igb.Features) >= 20 && igb.Firmware != "", "igb: %+v", igb)
	must.Hold(t, virtio.Driver == "virtio_net" && virtio.PCI != "" && virtio.Channels != nil &&
		virtio.Channels.MaxCombined == 4 && len(virtio.IRQs) >= 8, "virtio: %+v", virtio)
	for _, n := range []facts.NIC{igb, virtio} {
		if got, want := strconv.Itoa(n.Rings.Rx), shown(t, 1, "RX", "-g "+n.Name); got != want {
			t.Errorf("%s: rx ring %s, ethtool shows %s", n.Name, got, want)
		}
		for _, f := range n.Features {
			if f.Name == "rx-gro" { // ethtool has its own name for this one
				continue
			}
			line := sh(t, "ethtool -k "+n.Name+" | grep -E '^[[:space:]]*"+f.Name+":' || true")
			if line == "" {
				continue
			}
			if on, fixed := strings.Contains(line, ": on"), strings.Contains(line, "[fixed]"); on != f.On ||
				fixed != f.Fixed {
				t.Errorf("%s: feature %+v, ethtool shows %q", n.Name, f, line)
			}
		}
	}
}

func TestDriverSettingsAreWrittenAndRestored(t *testing.T) {
	labtest.Long(t)
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	h := takeStock(t, m)
	igb, virtio := byMAC(t, h, lab.MACigb0).Name, byMAC(t, h, lab.MACvirtio).Name
	sh(t, "ip link set "+igb+" up; ip link set "+virtio+" up; sleep 1")
	mechanisms := m.Mechanisms()
	ctx := patient(t)
	for _, c := range []struct {
		address, value string
		seen           func() string
	}{
		{"nic-ring:" + igb + "/rx", "512", func() string { return shown(t, 1, "RX", "-g "+igb) }},
		{"nic-ring:" + igb + "/tx", "1024", func() string { return shown(t, 1, "TX", "-g "+igb) }},
		{"nic-channels:" + igb + "/combined", "2", func() string { return shown(t, 1, "Combined", "-l "+igb) }},
		{"nic-channels:" + virtio + "/combined", "2", func() string { return shown(t, 1, "Combined", "-l "+virtio) }},
		{"nic-ring:" + virtio + "/rx", "128", func() string { return shown(t, 1, "RX", "-g "+virtio) }},
		{"nic-coalesce:" + igb + "/rx-usecs", "50", func() string { return shown(t, 0, "rx-usecs", "-c "+igb) }},
		{"nic-feature:" + igb + "/rx-checksum", "off",
			func() string { return shown(t, 0, "rx-checksumming", "-k "+igb) }},
		{"nic-feature:" + igb + "/tx-tcp-segmentation", "off",
			func() string { return shown(t, 0, "tx-tcp-segmentation", "-k "+igb) }},
		{"sysfs-cpus:class/net/" + igb + "/queues/tx-1/xps_cpus", "3", func() string {
			return fmt.Sprint(map[string]string{"8": "3"}[sh(t, "cat /sys/class/net/"+igb+"/queues/tx-1/xps_cpus")])
		}},
	} {
		a := must.Get(setting.ParseAddress(c.address))(t)
		before := mechanisms.Read(ctx, a)
		if before.State != setting.Known || before.Value == c.value {
			t.Errorf("%s: reads %s (%s) before", a, before, before.Why)
			continue
		}
		if err := mechanisms.Write(ctx, a, setting.Value(c.value)); err != nil {
			t.Error(err)
			continue
		}
		if got := mechanisms.Read(ctx, a); got.String() != c.value || c.seen() != c.value {
			t.Errorf("%s: reads %s after %s was written, another tool shows %q", a, got, c.value, c.seen())
		}
		must.Try(t, mechanisms.Write(ctx, a, before))
		if after := mechanisms.Read(ctx, a); !after.Same(before) {
			t.Errorf("%s: %s after it was restored to %s", a, after, before)
		}
	}
	// The hash: UDP with ports, and back.
	a := setting.Of(setting.NICFlowHash, igb, "udp4")
	before := mechanisms.Read(ctx, a)
	must.Try(t, mechanisms.Write(ctx, a, setting.Value("sdfn")))
	if text := sh(t, "ethtool -n "+igb+" rx-flow-hash udp4"); !strings.Contains(text, "L4 bytes 0 & 1") ||
		mechanisms.Read(ctx, a).Value != "sdfn" {
		t.Errorf("hash of UDP reads %s, ethtool shows\n%s", mechanisms.Read(ctx, a), text)
	}
	if err := mechanisms.Write(ctx, a, before); err != nil || before.Value != "sd" ||
		!mechanisms.Read(ctx, a).Same(before) {
		t.Errorf("hash of UDP was %s, is %s (%v)", before, mechanisms.Read(ctx, a), err)
	}
	for address, value := range map[string]string{
		"nic-ring:" + igb + "/rx": "9000", "nic-channels:" + igb + "/combined": "9", "nic-coalesce:" + igb +
			"/rx-usecs": "100000",
		"nic-coalesce:" + igb + "/tx-frames": "7", "nic-flowhash:" + igb + "/udp4": "sf", "nic-feature:" + igb +
			"/highdma": "off",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		before := mechanisms.Read(ctx, a)
		if err := mechanisms.Write(ctx, a, setting.Value(value)); err == nil {
			t.Errorf("%s = %s: expected the driver to refuse", a, value)
		} else {
			t.Log(err)
		}
		if after := mechanisms.Read(ctx, a); !after.Same(before) {
			t.Errorf("%s: %s after a refused write, %s before", a, after, before)
		}
	}
}

// TestInterruptIsFoundAfterRenumbering places an interrupt, makes the driver request its vectors again, and finds the
// interrupt again.
func TestInterruptIsFoundAfterRenumbering(t *testing.T) {
	labtest.Long(t)
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	name := byMAC(t, takeStock(t, m), lab.MACigb0).Name
	sh(t, "ip link set "+name+" up; ethtool -L "+name+" combined 4; sleep 1") // four receive and four transmit vectors
	nic := byMAC(t, takeStock(t, m), lab.MACigb0)
	at := slices.IndexFunc(nic.IRQs, func(i facts.IRQ) bool { return i.On == "rx-1" })
	must.Need(t, at >= 0, "interrupts of %s: %+v, want rx-1 among them", name, nic.IRQs)
	a := nic.Address(nic.IRQs[at])
	mechanisms := m.Mechanisms()
	ctx := patient(t)
	before := mechanisms.Read(ctx, a)
	must.Do(t, mechanisms.Write(ctx, a, setting.Value("2")))
	file := path.Join("/proc/irq", strconv.Itoa(nic.IRQs[at].Number), "smp_affinity_list")
	if got := sh(t, "cat "+file); got != "2" || mechanisms.Read(ctx, a).Value != "2" {
		t.Errorf("%s: reads %s, the file holds %s, want 2", a, mechanisms.Read(ctx, a), got)
	}
	if err := mechanisms.Write(ctx, a, before); err != nil || !mechanisms.Read(ctx, a).Same(before) {
		t.Errorf("%s: %s (%v) after it was restored to %s", a, mechanisms.Read(ctx, a), err, before)
	}
	if err := mechanisms.Write(ctx, a, setting.Value("777")); err == nil {
		t.Errorf("%s: expected a CPU that is not there to be refused", a)
	} else {
		t.Log(err)
	}
	combined := setting.Of(setting.NICChannels, name, "combined")
	had := mechanisms.Read(ctx, combined)
	for _, count := range []string{"1", "2"} {
		must.Do(t, mechanisms.Write(ctx, combined, setting.Value(count)))
	}
	stale := setting.Of(setting.IRQAffinity, name, "rx-1", "100000")
	for _, address := range []setting.Address{a, stale} {
		if r := mechanisms.Read(ctx, address); r.State != setting.Known {
			t.Errorf("%s after the vectors were asked for again: %s (%s)", address, r, r.Why)
		}
	}
	must.Try(t, mechanisms.Write(ctx, stale, setting.Value("3")))
	now := byMAC(t, takeStock(t, m), lab.MACigb0)
	if i := slices.IndexFunc(now.IRQs, func(i facts.IRQ) bool { return i.On == "rx-1" }); i < 0 ||
		now.IRQs[i].Affinity.String() != "3" {
		t.Errorf("rx-1 is not where it was placed: %+v", now.IRQs)
	}
	must.Try(t, mechanisms.Write(ctx, combined, had))
}

func TestVirtualFunctionsAreSeen(t *testing.T) {
	labtest.Long(t)
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	name := byMAC(t, takeStock(t, m), lab.MACigb0).Name
	mechanisms := m.Mechanisms()
	ctx := patient(t)
	count := setting.Of(setting.Sysfs, "class", "net", name, "device", "sriov_numvfs")
	had := mechanisms.Read(ctx, count)
	sh(t, "ip link set "+name+" up; modprobe vfio-pci; echo 0 > /sys/class/net/"+name+"/device/sriov_drivers_autoprobe")
	must.Do(t, mechanisms.Write(ctx, count, setting.Value("2")))
	sh(t, "ip link set "+name+" vf 1 mac 52:54:00:00:09:01 vlan 100 qos 3 spoofchk off trust on; ip link set "+name+
		" vf 1 max_tx_rate 500 || true")
	h := takeStock(t, m)
	must.Need(t, len(h.VFs) == 2, "%d VFs, want 2", len(h.VFs))
	v := h.VFs[1]
	if v.PF != name || v.Index != 1 || v.PCI == "" || v.Group < 0 || v.Driver != "" || v.MAC != "52:54:00:00:09:01" ||
		v.VLAN != 100 || v.QoS != 3 ||
		v.SpoofCheck || !v.Trust || !h.VFs[0].SpoofCheck || h.VFs[0].Trust || h.VFs[0].PCI == v.PCI {
		t.Errorf("VFs %+v, ip shows\n%s", h.VFs, sh(t, "ip link show "+name))
	}
	if s := byMAC(t, h, lab.MACigb0).SRIOV; s.Enabled != 2 || s.AutoProbe {
		t.Errorf("SR-IOV %+v", s)
	}
	sh(t, "echo 1 > /sys/class/net/"+name+"/device/sriov_drivers_autoprobe")
	must.Try(t, mechanisms.Write(ctx, count, had))
	must.Equal(t, len(takeStock(t, m).VFs), 0, "VFs after they were taken away")
}

func TestOverlaysAndRulesAreSeen(t *testing.T) {
	labtest.Long(t)
	if !inLab(t) {
		return
	}
	m := must.Get(Open("/"))(t)
	loaded := sh(t, "cut -d' ' -f1 /proc/modules | sort")
	first := takeStock(t, m)
	if now := sh(t, "cut -d' ' -f1 /proc/modules | sort"); now != loaded {
		t.Errorf("looking has loaded modules:\n%s\nbefore\n%s", now, loaded)
	}
	if len(first.Netfilter.Rules) != 0 && !strings.Contains(loaded, "_tables") {
		t.Errorf("rules without modules: %+v", first.Netfilter)
	}
	below := byMAC(t, first, lab.MACigb0).Name
	sh(t, "ip link add vx0 numtxqueues 4 type vxlan id 7 dev "+below+" dstport 4789; ip link add gt0 numtxqueues 4 "+
		"type gretap local 192.0.2.1 remote 192.0.2.2; "+
		"ip link add gs0 type gretap local 192.0.2.1 remote 192.0.2.3 oseq key 5; ip link add gn0 type geneve id 8 "+
		"remote 192.0.2.2; "+
		"ip link add link "+below+" name vl0 type vlan id 5; ip link add bo0 type bond; ip link add du0 type dummy; "+
		"ip link set du0 master bo0")
	defer sh(t, "for d in vx0 gt0 gs0 gn0 vl0 bo0 du0; do ip link del $d; done")
	sh(t, "modprobe br_netfilter; modprobe ebtables; ebtables-legacy -A FORWARD -p ARP -j ACCEPT; ebtables-legacy -P "+
		"FORWARD DROP")
	defer sh(t, "ebtables-legacy -F; ebtables-legacy -P FORWARD ACCEPT")
	h := takeStock(t, m)
	for _, c := range []struct {
		name, lower string
		lockless    bool
	}{{"vx0", below, true}, {"gt0", "", true}, {"gs0", "", false}, {"gn0", "", true}, {"vl0", below, true},
		{"bo0", "du0", true}} {
		at := slices.IndexFunc(h.Tunnels, func(x facts.Tunnel) bool { return x.Name == c.name })
		if at < 0 {
			t.Errorf("%s is not among the tunnels %+v", c.name, h.Tunnels)
			continue
		}
		if x := h.Tunnels[at]; x.Lower != c.lower || x.Lockless != c.lockless || x.LocklessBy == "" {
			t.Errorf("%+v, want lower %q, lockless %v", x, c.lower, c.lockless)
		}
	}
	must.Hold(t, h.Netfilter.BridgeModule && slices.Contains(h.Netfilter.Backends, "ebtables-legacy"),
		"netfilter %+v, unseen %v", h.Netfilter, h.Unseen)
	for _, set := range h.Netfilter.Rules {
		if set.Tool == "ebtables-legacy" &&
			(set.Rules != 1 || !slices.Equal(set.Lines,
				[]string{"-t filter -P FORWARD DROP", "-t filter -A FORWARD -p ARP -j ACCEPT"})) {
			t.Errorf("rules of ebtables-legacy: %d, %q", set.Rules, set.Lines)
		}
	}
	bridgeRulesGoAndComeBack(t, m)
}

// bridgeRulesGoAndComeBack flushes the rules of ebtables-legacy and restores them, checked with ebtables-legacy.
func bridgeRulesGoAndComeBack(t *testing.T, m *Machine) {
	sh(t, "ebtables-legacy -N mine; ebtables-legacy -P mine RETURN; ebtables-legacy -A FORWARD -j mine; "+
		"ebtables-legacy -A mine -i vnet7 --log-level info --log-prefix 'two  words' -j CONTINUE")
	defer sh(t, "ebtables-legacy -F; ebtables-legacy -X")
	const shown = "ebtables-legacy -L --Lx"
	mechanism, a, was := m.Mechanisms()[setting.RuleSet], setting.Of(setting.RuleSet, "ebtables-legacy"), sh(t, shown)
	before := mechanism.Read(patient(t), a)
	must.Need(t, before.State == setting.Known && !before.ReadOnly && strings.Contains(was, "two  words"),
		"%+v of\n%s", before, was)
	must.Do(t, mechanism.Write(patient(t), a, setting.Missing("removed")))
	if now := sh(t, shown); strings.TrimSpace(now) != "" || mechanism.Read(patient(t), a).State != setting.Absent {
		t.Errorf("still there:\n%s", now)
	}
	must.Do(t, mechanism.Write(patient(t), a, before))
	must.Equal(t, sh(t, shown), was, "put back")
}
