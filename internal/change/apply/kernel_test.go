//go:build netns

package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestKernel runs the engine on the parameters of its own network namespace: real files of a real kernel, which
// refuses what is out of range. The namespace belongs to a child process and goes with it.
func TestKernel(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	t.Run("refused", kernelRefuses)
	t.Run("device", kernelDevice)
	t.Run("80 changes", kernelUndoes80)
	t.Run("full disk", kernelFullDisk)
}

func kernelEngine(t *testing.T) *apply.Engine {
	t.Helper()
	m := must.Get(machine.Open("/"))(t)
	j := must.Get(journal.Open(t.TempDir()))(t)
	t.Cleanup(func() { _ = errors.Join(m.Close(), j.Close()) })
	return &apply.Engine{Mechanisms: m.Mechanisms(), Journal: j, Host: "box", BootID: "boot", Version: "test"}
}

// parameters is the text of every parameter below net that can be read. What counts by itself is left out.
func parameters(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("/proc/sys/net", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_count") {
			return nil
		}
		if text, err := os.ReadFile(name); err == nil {
			all[name] = string(text)
		}
		return nil
	})
	must.Need(t, err == nil && len(all) >= 100, "%d parameters, %v", len(all), err)
	return all
}

func parameter(t *testing.T, e *apply.Engine, name, to string) plan.Change {
	t.Helper()
	a := setting.Of(setting.Sysctl, name)
	from := e.Mechanisms.Read(t.Context(), a)
	must.Need(t, from.State == setting.Known, "%s: %s", a, from.Why)
	return plan.Change{ID: "test", Address: a, From: from, To: setting.Value(to), Want: setting.Exact(to),
		Risk: goal.None}
}

// kernelRefuses: a TTL of 999 is out of range (net/ipv4/sysctl_net_ipv4.c, ip_default_ttl 1–255).
func kernelRefuses(t *testing.T) {
	e := kernelEngine(t)
	before := parameters(t)
	p := &plan.Plan{Goal: goal.Unlimited(), Changes: []plan.Change{
		parameter(t, e, "net.core.somaxconn", "8192"),
		parameter(t, e, "net.ipv4.tcp_rmem", "8192 262144 8388608"),
		parameter(t, e, "net.ipv4.ip_default_ttl", "999"),
	}}
	result, err := e.Run(t.Context(), p, apply.Options{})
	must.Need(t, errors.Is(err, syscall.EINVAL) && result.State == journal.FailedUndone,
		"%s, %v; expected EINVAL and everything put back", result.State, err)
	must.Contain(t, err.Error(), "sysctl:net.ipv4.ip_default_ttl", "999", "invalid argument", "are put back")
	must.Same(t, parameters(t), before, "parameters differ after the failure")
}

// kernelDevice changes channels, features and masks of a veth pair. Fewer channels take the masks of their queues with
// them, also one that no change is about. What ethtool and sysfs show must be as before, by their own words.
func kernelDevice(t *testing.T) {
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		must.Need(t, err == nil, "%v: %v: %s", args, err, out)
		return string(out)
	}
	run("ip", "link", "add", "ve0", "numtxqueues", "4", "numrxqueues", "4", "type", "veth", "peer", "name", "ve1")
	run("ip", "link", "set", "ve0", "up")
	run("ip", "link", "set", "ve1", "up")
	run("ethtool", "-L", "ve0", "rx", "4", "tx", "4")
	const masks = "/sys/class/net/ve0/queues/"
	for _, mask := range []string{"rx-0/rps_cpus", "rx-1/rps_cpus", "tx-1/xps_cpus"} {
		must.Do(t, os.WriteFile(masks+mask, []byte("1\n"), 0))
	}
	shows := func() string {
		var b strings.Builder
		for _, what := range []string{"-k", "-l"} {
			b.WriteString(run("ethtool", what, "ve0"))
		}
		files, err := filepath.Glob(masks + "*/?ps_cpus")
		must.Need(t, err == nil && len(files) >= 8, "masks: %v, %v", files, err)
		for _, name := range files {
			text := must.Get(os.ReadFile(name))(t)
			fmt.Fprintf(&b, "%s: %s", name, text)
		}
		return b.String()
	}
	e := kernelEngine(t)
	change := func(a setting.Address, to string) plan.Change {
		from := e.Mechanisms.Read(t.Context(), a)
		must.Need(t, from.State == setting.Known, "%s: %s", a, from.Why)
		return plan.Change{ID: "test", Address: a, From: from, To: setting.Value(to), Want: setting.Exact(to),
			Risk: goal.Blip}
	}
	p := &plan.Plan{Goal: goal.Unlimited(), Changes: []plan.Change{
		change(setting.Of(setting.NICChannels, "ve0", "tx"), "2"),
		change(setting.Of(setting.NICFeature, "ve0", "tx-tcp-segmentation"), "off"),
		change(setting.Of(setting.SysfsCPUs, "class/net/ve0/queues/rx-0/rps_cpus"), "1"),
	}}
	beside := []setting.Address{
		setting.Of(setting.SysfsCPUs, "class/net/ve0/queues/rx-1/rps_cpus"),
		setting.Of(setting.SysfsCPUs, "class/net/ve0/queues/tx-1/xps_cpus"),
	}
	before := shows()
	if result, err := e.Run(t.Context(), p, apply.Options{Beside: beside}); err != nil || len(result.Moved) > 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	must.Contain(t, run("ethtool", "-k", "ve0"), "tx-tcp-segmentation: off")
	must.Get(e.Rollback(t.Context(), apply.RollbackOptions{}))(t)
	must.Equal(t, shows(), before, "after rollback")
	p.Changes = append(p.Changes, parameter(t, e, "net.ipv4.ip_default_ttl", "999"))
	if _, err := e.Run(t.Context(), p, apply.Options{Beside: beside}); !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("error is %v, expected EINVAL", err)
	}
	must.Equal(t, shows(), before, "after a failure")
}

// kernelUndoes80 writes 80 parameters of loopback devices and puts them back within 2 s.
func kernelUndoes80(t *testing.T) {
	e := kernelEngine(t)
	p := &plan.Plan{Goal: goal.Unlimited()}
	for _, where := range []string{"ipv4.conf.default", "ipv4.conf.lo"} {
		names := must.Get(filepath.Glob("/proc/sys/net/" + strings.ReplaceAll(where, ".", "/") + "/*"))(t)
		for _, name := range names {
			c := parameter(t, e, "net."+where+"."+filepath.Base(name), "1")
			if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o200 != 0 && c.From.Value == "0" {
				p.Changes = append(p.Changes, c)
			}
		}
	}
	for _, where := range []string{"ipv6.conf.default", "ipv6.conf.lo"} {
		for _, name := range []string{"autoconf", "accept_ra_defrtr", "accept_ra_pinfo", "accept_redirects",
			"hop_limit", "mtu", "accept_source_route", "dad_transmits", "max_addresses", "router_solicitations",
			"suppress_frag_ndisc", "temp_prefered_lft", "temp_valid_lft", "regen_max_retry", "use_oif_addrs_only",
			"keep_addr_on_down", "ndisc_notify", "drop_unicast_in_l2_multicast"} {
			if _, err := os.Stat("/proc/sys/net/" + strings.ReplaceAll(where, ".", "/") + "/" + name); err != nil {
				continue
			}
			c := parameter(t, e, "net."+where+"."+name, "0")
			if c.From.Value == "0" {
				c = parameter(t, e, "net."+where+"."+name, "1")
			}
			if name == "mtu" || name == "hop_limit" {
				c.To, c.Want = setting.Value("1300"), setting.Exact("1300")
			}
			if name == "hop_limit" {
				c.To, c.Want = setting.Value("33"), setting.Exact("33")
			}
			p.Changes = append(p.Changes, c)
		}
	}
	if len(p.Changes) > 80 {
		p.Changes = p.Changes[:80]
	}
	before := parameters(t)
	must.Get(e.Run(t.Context(), p, apply.Options{}))(t)
	must.Need(t, !maps.Equal(parameters(t), before), "nothing was changed")
	began := time.Now()
	done, err := e.Rollback(context.Background(), apply.RollbackOptions{})
	took := time.Since(began)
	must.Need(t, err == nil && done[0].Drifted() <= 0, "%+v, %v", done, err)
	for name, text := range parameters(t) {
		must.Equal(t, before[name], text, "%s", name)
	}
	must.Hold(t, took <= 2*time.Second, "undone in %v, expected under 2 s", took)
	t.Logf("%d parameters of the kernel undone in %v", done[0].Written(), took)
}

// kernelFullDisk: there is no room for the journal. Nothing is changed, and the error says why. disk_netns_test.go has
// disks that are full later.
func kernelFullDisk(t *testing.T) {
	e := kernelEngine(t)
	p := &plan.Plan{Goal: goal.Unlimited()}
	for _, name := range []string{"accept_local", "arp_accept", "arp_filter", "arp_notify", "bc_forwarding",
		"bootp_relay", "log_martians", "proxy_arp", "drop_gratuitous_arp", "ignore_routes_with_linkdown"} {
		for _, device := range []string{"default", "lo"} {
			p.Changes = append(p.Changes, parameter(t, e, "net.ipv4.conf."+device+"."+name, "1"))
		}
	}
	before := parameters(t)
	for _, pages := range []int{1, 2} { // of 4096 bytes: 20 changes take more
		dir := t.TempDir()
		must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", pages<<12)))
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		must.Do(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
		must.Do(t, syscall.Mount("tmpfs", filepath.Join(dir, "run"), "tmpfs", 0, "mode=755"))
		j := must.Get(journal.Open(dir))(t)
		t.Cleanup(func() { _ = j.Close() })
		e.Journal = j
		result, err := e.Run(t.Context(), p, apply.Options{})
		must.Need(t, errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), "no space left on device"),
			"%d pages: %v; expected no space", pages, err)
		if result.Written() != 0 || !maps.Equal(parameters(t), before) {
			t.Errorf("%d pages: %d changes stand, parameters differ: %v", pages, result.Written(),
				!maps.Equal(parameters(t), before))
		}
		// Room for the journal is reserved before anything is written: nothing has begun.
		if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsClean {
			t.Errorf("%d pages: status %s, %v", pages, s.State, err)
		}
		must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=1m"))
		must.Pass(e.Rollback(t.Context(), apply.RollbackOptions{}))(t, "%d pages: rollback", pages)
		if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsClean ||
			!maps.Equal(parameters(t), before) {
			t.Errorf("%d pages: status %s, %v", pages, s.State, err)
		}
	}
}
