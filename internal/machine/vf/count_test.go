package vf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const pfFolder = "sys/devices/pci0000:00/0000:01:00.0"

// pfTree returns a host with one PF that has some VFs.
func pfTree(driver string, total, count int) map[string]string {
	files := map[string]string{
		pfFolder + "/sriov_totalvfs": fmt.Sprintln(total), pfFolder + "/sriov_numvfs": fmt.Sprintln(count),
		pfFolder + "/sriov_drivers_autoprobe": "1\n", pfFolder + "/driver": "-> ../../../bus/pci/drivers/" + driver,
		pfFolder + "/net/eth0/ifindex": "3\n", pfFolder + "/net/eth0/device": "-> ../../../0000:01:00.0",
		pfFolder + "/net/eth0/queues/tx-0/traffic_class": "\n",
		"sys/bus/pci/drivers/" + driver + "/":            "",
		"sys/class/net/eth0":                             "-> ../../devices/pci0000:00/0000:01:00.0/net/eth0",
		"run/udev/control":                               "", "run/udev/data/n3": "I:1\n",
	}
	for i := range count {
		maps.Copy(files, oneFunction(i))
	}
	return files
}

func functionAddress(i int) string { return fmt.Sprintf("0000:01:10.%d", i) }

// oneFunction returns the files of a VF with a driver and a name.
func oneFunction(i int) map[string]string {
	dir := "sys/devices/pci0000:00/" + functionAddress(i)
	return map[string]string{
		pfFolder + "/virtfn" + strconv.Itoa(i):        "-> ../" + functionAddress(i),
		dir + "/iommu_group":                          "-> ../../../kernel/iommu_groups/" + strconv.Itoa(20+i),
		dir + "/driver":                               "-> ../../../bus/pci/drivers/igbvf",
		fmt.Sprintf("%s/net/eth0v%d/ifindex", dir, i): strconv.Itoa(10+i) + "\n",
		fmt.Sprintf("sys/class/net/eth0v%d", i): fmt.Sprintf("-> ../../devices/pci0000:00/%s/net/eth0v%d",
			functionAddress(i), i),
		fmt.Sprintf("run/udev/data/n%d", 10+i): "I:1\n",
	}
}

func vfCountOf(m *tree.Tree) vfCount {
	return vfCount{m: m, answers: true, patience: time.Second}
}

var countOfPF = setting.Of(setting.VFCount, "eth0")

// actingKernel creates and removes VFs a moment after they are requested, until it is stopped, and returns the last
// number.
func actingKernel(t *testing.T, m *tree.Tree, functions func(n int) map[string]string) (stop func() (last string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string, 1)
	last := m.Line(pfFolder + "/sriov_numvfs")
	go func() {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			now := m.Line(pfFolder + "/sriov_numvfs")
			n, err := strconv.Atoi(now)
			if err != nil || now == last {
				continue
			}
			last = now
			for i := n; m.Target(pfFolder+"/virtfn"+strconv.Itoa(i)) != ""; i++ {
				_ = os.Remove(filepath.Join(m.Path, pfFolder, "virtfn"+strconv.Itoa(i)))
			}
			plant(t, m, functions(n))
		}
		done <- last
	}()
	return func() string { cancel(); return <-done }
}

// plant adds files to a tree.
func plant(t *testing.T, m *tree.Tree, files map[string]string) {
	for name, text := range files {
		file := filepath.Join(m.Path, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if target, isLink := strings.CutPrefix(text, "-> "); isLink {
			_ = os.Symlink(target, file)
		} else if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		must.Try(t, err)
	}
}

func allOf(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		maps.Copy(files, oneFunction(i))
	}
	return files
}

// TestVFCount: a new number of VFs is created, and the write returns when all are there and named.
func TestVFCount(t *testing.T) {
	m := treetest.Recorded(t, pfTree("igb", 7, 2))
	v := vfCountOf(m)
	if r := v.Read(t.Context(), countOfPF); r.Value != "2" {
		t.Fatal(r)
	}
	stop := actingKernel(t, m, allOf)
	must.Do(t, v.Write(t.Context(), countOfPF, setting.Value("5")))
	p := physical{m: m, name: "eth0", dir: "sys/class/net/eth0/device", count: 5}
	must.Equal(t, p.progress(), progress{links: 5, drivers: 5, names: 5}, "progress")
	must.Equal(t, stop(), "5", "written")
	if r := v.Read(t.Context(), setting.Of(setting.VFCount, "eth9")); !r.NoObject {
		t.Errorf("of a device that is not there: %v", r)
	}
}

// TestVFCountIsBounded: more than the card or the driver supports is refused before anything is written.
func TestVFCountIsBounded(t *testing.T) {
	for _, c := range []struct {
		driver       string
		total, count int
		class        string
		because      string
	}{
		{"igb", 8, 8, "\n", "igb makes at most 7"},
		{"e1000x", 4, 5, "\n", "sriov_totalvfs is 4"},
		{"ixgbe", 64, 64, "\n", "ixgbe makes at most 63"},
		{"ixgbe", 63, 32, "3\n", "at most 31 with 4 traffic classes (DCB)"},
		{"ixgbe", 63, 16, "7\n", "at most 15 with 8 traffic classes (DCB)"},
	} {
		files := pfTree(c.driver, c.total, 0)
		files[pfFolder+"/net/eth0/queues/tx-0/traffic_class"] = c.class
		m := treetest.Recorded(t, files)
		err := vfCountOf(m).Write(t.Context(), countOfPF, setting.Value(strconv.Itoa(c.count)))
		must.Say(t, err, c.because, "%s, %d", c.driver, c.count)
		must.Equal(t, m.Line(pfFolder+"/sriov_numvfs"), "0", "%s", c.driver)
	}
}

// TestVFCountInUse: the users of VFs are named, and nothing is written.
func TestVFCountInUse(t *testing.T) {
	const domainXML = `<domstatus state='running' reason='booted' pid='77'><domain type='kvm' id='1'><name>fw1</name><devices>` +
		`<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x0000' bus='0x01' slot='0x10' function='0x1'/></source></hostdev></devices></domain></domstatus>`
	for name, c := range map[string]struct {
		files map[string]string
		by    string
	}{
		"a guest of libvirt": {map[string]string{"run/libvirt/qemu/fw1.xml": domainXML}, "function 1 (0000:01:10.1) " +
			"by guest fw1"},
		"its own QEMU": {map[string]string{
			"proc/77/comm": "qemu-system-x86\n", "proc/77/cmdline": "qemu-system-x86_64\x00-name\x00own\x00",
			"proc/77/fd/9": "-> /dev/vfio/20",
		}, "function 0 (0000:01:10.0) by guest own"},
		"another process": {map[string]string{"proc/78/comm": "dpdk-testpmd\n", "proc/78/fd/9": "-> /dev/vfio/22"},
			"function 2 (0000:01:10.2) by dpdk-testpmd (process 78)"},
		"a process with the device itself": {map[string]string{
			"sys/devices/pci0000:00/0000:01:10.2/vfio-dev/vfio5/dev": "1:1\n", "proc/78/comm": "testpmd\n",
			"proc/78/fd/9": "-> /dev/vfio/devices/vfio5",
		}, "function 2 (0000:01:10.2) by testpmd (process 78)"},
		"a bridge": {map[string]string{"sys/devices/pci0000:00/0000:01:10.0/net/eth0v0/upper_br0": "-> ../../../br0"},
			"function 0 (0000:01:10.0) by br0, which is above its device eth0v0"},
	} {
		files := pfTree("igb", 7, 3)
		maps.Copy(files, c.files)
		m := treetest.Recorded(t, files)
		for _, count := range []string{"0", "5"} {
			err := vfCountOf(m).Write(t.Context(), countOfPF, setting.Value(count))
			var used *InUse
			must.Hold(t, errors.As(err, &used) && strings.Contains(err.Error(), c.by) && used.Hint() != "",
				"%s, %s: %v", name, count, err)
		}
		must.Equal(t, m.Line(pfFolder+"/sriov_numvfs"), "3", "%s", name)
		must.Succeed(t, vfCountOf(m).Write(t.Context(), countOfPF, setting.Value("3")),
			"%s, the number that there is", name)
	}
	// A process that has opened /dev/vfio/vfio, or another group, uses none of the VFs.
	files := pfTree("igb", 7, 1)
	maps.Copy(files, map[string]string{"proc/78/comm": "x\n", "proc/78/fd/9": "-> /dev/vfio/vfio",
		"proc/78/fd/10": "-> /dev/vfio/99"})
	m := treetest.Recorded(t, files)
	defer actingKernel(t, m, allOf)()
	must.Try(t, vfCountOf(m).Write(t.Context(), countOfPF, setting.Value("0")))
}

// TestVFsSettle waits for VFs without a name, but not if the host's drivers do not probe or none binds.
func TestVFsSettle(t *testing.T) {
	unnamed := func(n int) map[string]string {
		files := allOf(n)
		delete(files, "run/udev/data/n11")
		return files
	}
	bare := func(n int) map[string]string {
		files := map[string]string{}
		for i := range n {
			files[pfFolder+"/virtfn"+strconv.Itoa(i)] = "-> ../" + functionAddress(i)
			files["sys/devices/pci0000:00/"+functionAddress(i)+"/vendor"] = "0x8086\n"
		}
		return files
	}
	none := func(int) map[string]string { return nil }
	for name, c := range map[string]struct {
		functions func(int) map[string]string
		probe     string
		queue     bool
		least     time.Duration
		fails     string
	}{
		"all named":       {functions: allOf, probe: "1"},
		"one not named":   {functions: unnamed, probe: "1", least: settleQuiet},
		"nobody probes":   {functions: bare, probe: "0"},
		"no driver comes": {functions: bare, probe: "1", least: settleQuiet},
		"udev at work":    {functions: allOf, probe: "1", queue: true, least: settleQuiet},
		"udev works on": {functions: unnamed, probe: "1", queue: true, fails: "3 of 3 are there, 3 have a driver, " +
			"2 have a name, udev is still at work): eth0 has 3 virtual functions now"},
		"none appears": {functions: none, probe: "0", fails: "not settled within 3s (0 of 3 are there)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := pfTree("igb", 7, 0)
			files[pfFolder+"/sriov_drivers_autoprobe"] = c.probe + "\n"
			if c.queue {
				files["run/udev/queue"] = ""
			}
			m := treetest.Recorded(t, files)
			stop := actingKernel(t, m, c.functions)
			defer stop()
			began := time.Now()
			err := vfCount{m: m, answers: true, patience: 3 * time.Second}.Write(t.Context(), countOfPF,
				setting.Value("3"))
			took := time.Since(began)
			switch {
			case c.fails == "" && err != nil, c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("%v, expected %q", err, c.fails)
			case c.fails == "" && (took < c.least || took > c.least+5*time.Second):
				t.Errorf("took %v, expected about %v", took, c.least)
			}
		})
	}
}

// TestVFFilesOfMPPS: what mpps creates VFs with at boot is identified by device.
func TestVFFilesOfMPPS(t *testing.T) {
	files := pfTree("igb", 7, 0)
	maps.Copy(files, map[string]string{
		"sys/bus/pci/devices/0000:01:00.0": "-> ../../../devices/pci0000:00/0000:01:00.0",
		"etc/systemd/network/70-mpps-eth0.link": "# Written by " +
			"mpps\n[Match]\nPath=pci-0000:01:00.0\n\n[Link]\nSR-IOVVirtualFunctions=4\n",
		"var/lib/mpps/desired.json":                                   `{"schema":"mpps.desired/1","values":[{"address":"vf-count:eth7"},{"address":"vf-attr:eth8/0/vlan"}]}`,
		"etc/systemd/system/multi-user.target.wants/mpps-vfs.service": "-> ../mpps-vfs.service",
	})
	if got := fmt.Sprint(Files(treetest.Recorded(t, files))); got != "[{/var/lib/mpps/desired.json eth7} "+
		"{/etc/systemd/network/70-mpps-eth0.link eth0}]" {
		t.Error(got)
	}
	delete(files, "etc/systemd/system/multi-user.target.wants/mpps-vfs.service")
	if got := Files(treetest.Recorded(t, files)); len(got) != 1 {
		t.Errorf("with the service not enabled: %v", got)
	}
}
