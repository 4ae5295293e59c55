//go:build faults

package faults

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// inNamespace is set for the process that runs a test in its own network namespace; it names the file that gets
// the figure.
const inNamespace = "MPPS_FAULTS_NETNS"

// TestUndo80 measures how long 80 values and the files that make them last take to be put back, on a disk.
func TestUndo80(t *testing.T) {
	root := t.TempDir()
	makeTree(t, root)
	before := contents(t, root)
	p := makePlan(t, root)
	e, closed, err := engine(root)
	must.Do(t, err)
	defer closed()
	done := must.Get(e.Run(t.Context(), p, apply.Options{}))(t)
	took := undone(t, e, len(p.Changes))
	if different := differences(before, contents(t, root)); len(different) > 0 {
		total.lose(t, "after rollback %q", different)
	}
	total.took(fmt.Sprintf("and what makes them last, %d changes in a recorded tree", len(p.Changes)), took)
	t.Logf("%d changes applied in %.2f s, put back in %.2f s", len(p.Changes), done.Seconds, took.Seconds())
}

// undone puts the last transaction back and returns how long that took.
func undone(t *testing.T, e *apply.Engine, changes int) time.Duration {
	t.Helper()
	began := time.Now()
	restored, err := e.Rollback(t.Context(), apply.RollbackOptions{})
	took := time.Since(began)
	must.Do(t, err)
	if restored[0].Written() != changes {
		t.Fatalf("%d values were put back, expected %d", restored[0].Written(), changes)
	}
	must.Hold(t, took < undoLimit, "put back in %v, expected under %v", took, undoLimit)
	return took
}

// TestUndo80OfTheKernel does it with 60 kernel parameters and 20 masks of queues of the kernel that runs, in a network
// namespace of its own; the journal is on a disk.
func TestUndo80OfTheKernel(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		figure := filepath.Join(t.TempDir(), "seconds")
		cmd := exec.Command(os.Args[0], "-test.run=^TestUndo80OfTheKernel$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"="+figure)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
			Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		must.Need(t, err == nil, "in a network namespace: %v: %s", err, out)
		text := must.Get(os.ReadFile(figure))(t)
		took := must.Get(time.ParseDuration(string(text)))(t)
		total.took("60 parameters and 20 masks of the running kernel", took)
		t.Logf("put back in %v", took)
		return
	}
	// /sys shows the devices of the namespace in which it was mounted.
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("sysfs", "/sys", "sysfs", 0, "")); err != nil {
		t.Fatalf("a /sys of its own: %v", err)
	}
	for _, line := range []string{
		"ip link add ve0 numtxqueues 10 numrxqueues 10 type veth peer name ve1",
		"ip link set ve0 up", "ip link set ve1 up", "ethtool -L ve0 rx 10 tx 10",
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	m := must.Get(machine.Open("/"))(t)
	j := must.Get(journal.Open(t.TempDir()))(t)
	defer func() { _ = errors.Join(m.Close(), j.Close()) }()
	e := &apply.Engine{Mechanisms: m.Mechanisms(), Journal: j, Host: "box", BootID: "boot", Version: "test"}
	p := &plan.Plan{Goal: goal.Unlimited()}
	add := func(a setting.Address, values ...string) {
		from := e.Mechanisms.Read(t.Context(), a)
		must.Need(t, from.State == setting.Known, "%s: %s", a, from.Why)
		to := values[slices.IndexFunc(values, func(v string) bool { return v != from.Value })]
		p.Changes = append(p.Changes, plan.Change{ID: "test", Address: a, From: from, To: setting.Value(to),
			Want: setting.Exact(to), Risk: goal.None})
	}
	for _, name := range switches {
		for _, device := range []string{"lo", "ve0", "ve1"} {
			add(setting.Of(setting.Sysctl, "net.ipv4.conf."+device+"."+name), "0", "1")
		}
	}
	for queue := range 10 {
		add(setting.Of(setting.SysfsCPUs, "class/net/ve0/queues/rx-"+strconv.Itoa(queue)+"/rps_cpus"), "0")
		add(setting.Of(setting.SysfsCPUs, "class/net/ve0/queues/tx-"+strconv.Itoa(queue)+"/xps_cpus"), "0")
	}
	must.Need(t, len(p.Changes) == planned, "%d changes, expected %d", len(p.Changes), planned)
	before := kernelFiles(t)
	must.Get(e.Run(t.Context(), p, apply.Options{}))(t)
	if applied := kernelFiles(t); len(differences(before, applied)) != planned {
		t.Fatalf("%d files of the kernel changed, expected %d: %q", len(differences(before, applied)), planned,
			differences(before, applied))
	}
	took := undone(t, e, planned)
	if after := kernelFiles(t); !maps.Equal(before, after) {
		t.Fatalf("after rollback %q", differences(before, after))
	}
	must.Do(t, os.WriteFile(os.Getenv(inNamespace), []byte(took.String()), 0o600))
}

// switches are parameters of a device that are 0 or 1, and move no others (Documentation/networking/ip-sysctl.rst).
var switches = []string{
	"accept_local", "accept_redirects", "accept_source_route", "arp_accept", "arp_announce", "arp_evict_nocarrier",
	"arp_filter",
	"arp_ignore", "arp_notify", "bc_forwarding", "bootp_relay", "disable_policy", "disable_xfrm", "drop_gratuitous_arp",
	"drop_unicast_in_l2_multicast", "ignore_routes_with_linkdown", "log_martians", "promote_secondaries", "proxy_arp",
	"rp_filter",
}

// kernelFiles is what the kernel shows of all parameters of the devices and of the masks, by its own files.
func kernelFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"/proc/sys/net/ipv4/conf/*/*", "/sys/class/net/ve0/queues/*/?ps_cpus"} {
		names, err := filepath.Glob(pattern)
		must.Need(t, err == nil && len(names) >= 10, "%s: %v, %v", pattern, names, err)
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil {
				all[name] = string(text)
			}
		}
	}
	return all
}
