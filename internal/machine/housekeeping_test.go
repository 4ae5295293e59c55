package machine

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const interruptsHead = "           CPU0       CPU1\n"

func housekeepingTree() map[string]string {
	return map[string]string{
		"proc/meminfo": "MemTotal: 8000000 kB\nMemFree: 100 kB\nMemAvailable: 4000000 kB\n",
		"proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2                               " +
			"partition\t2097148\t\t1024\t\t-2\n/swap\\040file                           file\t\t1048572\t\t0\t\t5\n",
		"dev/sda2": "", "swap file": "", "dev/sda3": "",
		"sys/kernel/mm/ksm/run":                   "1\n",
		"sys/kernel/mm/ksm/pages_shared":          "12\n",
		"sys/kernel/mm/ksm/merge_across_nodes":    "1\n",
		"sys/module/kvm/parameters/nx_huge_pages": "Y\n",
		"proc/17/comm":                            "rcub/0\n", // a program of that name
		"proc/17/stat":                            treetest.StatLine(17, "rcub/0", 0, 0),
		"proc/18/comm":                            "ksoftirqd/1\n",
		"proc/18/stat":                            treetest.KernelStat(18, "ksoftirqd/1", 0, 0),
		"proc/19/comm":                            "rcuc/1\n",
		"proc/19/stat":                            treetest.KernelStat(19, "rcuc/1", 1, 3),
		"proc/22/comm":                            "ktimers/1\n",
		"proc/22/stat":                            treetest.KernelStat(22, "ktimers/1", 1, 1),
		"proc/20/comm":                            "kworker/1:0\n",
		"proc/21/comm":                            "rcub/0\n",
		"proc/21/stat":                            treetest.KernelStat(21, "rcub/0", 1, 1),
		"proc/interrupts": interruptsHead + "   9:          5          6   IO-APIC   " +
			"9-fasteoi   acpi\n  24:          1          0   PCI-MSI 327680-edge      xhci_hcd\n  25:          0          0   PCI-MSI 1-edge\n",
		"proc/irq/default_smp_affinity": "3\n",
		"proc/irq/9/smp_affinity_list":  "0-1\n",
		"proc/irq/9/acpi/":              "",
		"proc/irq/24/smp_affinity_list": "1\n",
		"proc/irq/24/xhci_hcd/":         "",
		"sys/kernel/tracing/set_event":  "sched:sched_switch\nirq:irq_handler_entry\n",
		"etc/systemd/system/sriov.service": "[Service]\n# sriov_numvfs\nExecStart=/bin/sh -c 'echo 4 > " +
			"/sys/class/net/ens1f0/device/sriov_numvfs'\n",
		"etc/modprobe.d/ixgbe.conf":       "options ixgbe max_vfs=4\n",
		"etc/systemd/network/10-a.link":   "[Match]\nOriginalName=ens2\n[Link]\nSR-IOVVirtualFunctions=8\n",
		"etc/udev/rules.d/70-other.rules": "# sriov_numvfs\nKERNEL==\"x\"\n",
	}
}

func TestHousekeeping(t *testing.T) {
	h := recorded(t, housekeepingTree()).Inventory(context.Background())
	k := h.Housekeeping
	want := []facts.SwapArea{
		{Name: "/dev/sda2", Type: "partition", Size: 2097148 << 10, Used: 1 << 20, Priority: -2},
		{Name: "/swap file", Type: "file", Size: 1048572 << 10, Priority: 5},
	}
	must.Hold(t, reflect.DeepEqual(k.Swap, want) && k.Available == 4000000<<10,
		"swap %+v, available %d", k.Swap, k.Available)
	must.Hold(t, k.KSM != nil && *k.KSM == (facts.KSM{Run: 1, Shared: 12}), "page merging %+v", k.KSM)
	if threads := []facts.KernelThread{{Name: "ksoftirqd/1", PID: 18, Policy: "SCHED_OTHER"},
		{Name: "rcuc/1", PID: 19, Policy: "SCHED_FIFO", Priority: 3}, {Name: "rcub/0", PID: 21, Policy: "SCHED_FIFO",
			Priority: 1}, {Name: "ktimers/1", PID: 22, Policy: "SCHED_FIFO", Priority: 1}}; !reflect.DeepEqual(
		k.Threads, threads) {
		t.Errorf("threads %+v", k.Threads)
	}
	must.Hold(t, len(k.IRQs) == 2 && k.IRQs[0].On == "acpi" && k.IRQs[0].Count == 11 &&
		k.IRQs[0].Affinity.Equal(setting.CPUs(0, 1)), "interrupts %+v", k.IRQs)
	files := []facts.VFFile{{Path: "/etc/systemd/system/sriov.service", Device: "ens1f0"},
		{Path: "/etc/systemd/network/10-a.link", Device: "ens2"}, {Path: "/etc/modprobe.d/ixgbe.conf", Device: ""}}
	must.Same(t, k.VFFiles, files, "files")
}

func TestHousekeepingReadings(t *testing.T) {
	mechanisms := recorded(t, housekeepingTree()).Mechanisms()
	for _, c := range []struct{ address, want, why string }{
		{"swap:dev/sda2", "on", ""},
		{"swap:swap file", "on 5", ""},
		{"swap:dev/sda3", "off", ""},
		{"swap:dev/sda9", "absent", "there is no /dev/sda9"},
		{"ksm:run", "1", ""},
		{"ksm:merge_across_nodes", "1", ""},
		{"ksm:pages_to_scan", "unknown", "expected run"},
		{"module-param:kvm/nx_huge_pages", "Y", ""},
		{"module-param:kvm/none", "absent", "no such parameter"},
		{"module-param:kvm_intel/ple_gap", "absent", "not loaded"},
		{"module-param:kvm", "unknown", "MODULE/PARAMETER"},
		{"thread-sched:ksoftirqd/1", "SCHED_OTHER", ""},
		{"thread-sched:rcuc/1", "SCHED_FIFO 3", ""},
		{"thread-sched:rcuc/2", "absent", "no kernel thread"},
		{"thread-sched:rcub/0", "SCHED_FIFO 1", ""},
		{"trace-events:set_event", "irq:irq_handler_entry sched:sched_switch", ""},
		{"irq-cpus:default", "0-1", ""},
		{"irq-cpus:9/acpi", "0-1", ""},
		{"irq-cpus:9/nvme0q0", "absent", "no handler"},
		{"irq-cpus:acpi", "unknown", "NUMBER/NAME"},
		{"vf-attr:ens1/0/mac", "unknown", "recorded tree"},
		{"vf-attr:ens1/mac", "unknown", "PF/NUMBER"},
		{"rule-set:nft", "unknown", "recorded tree"},
	} {
		a := must.Get(setting.ParseAddress(c.address))(t)
		if r := mechanisms.Read(context.Background(), a); r.String() != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.address, r, r.Why, c.want, c.why)
		}
	}
}

func TestHousekeepingWrites(t *testing.T) {
	m := recorded(t, housekeepingTree())
	mechanisms := m.Mechanisms()
	for _, c := range []struct{ address, value, after, err string }{
		{"ksm:run", "0", "0", ""},
		{"ksm:merge_across_nodes", "0", "0", ""},
		{"ksm:merge_across_nodes", "yes", "", "expected a count"},
		{"trace-events:set_event", "none", "none", ""},
		{"trace-events:set_event", "sched:sched_waking irq:irq_handler_exit", "irq:irq_handler_exit sched:sched_waking",
			""},
		{"irq-cpus:9/acpi", "0", "0", ""},
		{"irq-cpus:default", "1", "1", ""},
		{"irq-cpus:9/other", "0", "", "no handler"},
		{"module-param:kvm/nx_huge_pages", "N", "N", ""},
		{"swap:dev/sda2", "off", "", "recorded tree"},
		{"swap:dev/sda2", "on -3", "", "priority from 0"},
		{"thread-sched:rcuc/1", "SCHED_FIFO 2", "", "recorded tree"},
		{"thread-sched:rcuc/1", "SCHED_FIFO 100", "", "1 to 99"},
		{"vf-attr:ens1/0/trust", "on", "", "recorded tree"},
		{"rule-set:nft", "x", "", "recorded tree"},
	} {
		a := must.Get(setting.ParseAddress(c.address))(t)
		err := mechanisms.Write(context.Background(), a, setting.Value(c.value))
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s to %q: %v, want %s", c.address, c.value, err, c.err)
		case c.err == "" && err != nil:
			t.Errorf("%s to %q: %v", c.address, c.value, err)
		case c.after != "":
			if r := mechanisms.Read(context.Background(), a); r.String() != c.after {
				t.Errorf("%s is %s after %q", c.address, r, c.value)
			}
		}
	}
	must.Equal(t, m.Line("sys/kernel/mm/ksm/run"), "0", "merge_across_nodes left run at")
}
