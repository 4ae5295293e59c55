package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// bigCards returns a tree of /sys with some PFs, each with some VFs that have interfaces with four queues on the host.
func bigCards(t testing.TB, pfs, vfs int) string {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if target, is := strings.CutPrefix(text, "-> "); err == nil && is {
			err = os.Symlink(target, file)
		} else if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		must.Do(t, err)
	}
	device := func(bus, pci, name string, index int) {
		at := bus + "/" + pci
		put("sys/class/net/"+name, "-> ../../"+strings.TrimPrefix(at, "sys/")+"/net/"+name)
		put(at+"/net/"+name+"/ifindex", fmt.Sprintln(index))
		put(at+"/net/"+name+"/flags", "0x1003\n")
		put(at+"/net/"+name+"/address", fmt.Sprintf("52:54:00:01:%02x:%02x\n", index>>8, index&255))
		put(at+"/net/"+name+"/device", "-> ../../../"+pci)
		for q := range 4 {
			put(fmt.Sprintf("%s/net/%s/queues/rx-%d/rps_cpus", at, name, q), "0\n")
			put(fmt.Sprintf("%s/net/%s/queues/tx-%d/xps_cpus", at, name, q), "0\n")
		}
		put(at+"/subsystem", "-> ../../../../bus/pci")
	}
	index := 2
	for p := range pfs {
		bus := fmt.Sprintf("sys/devices/pci0000:40/0000:40:%02x.0", p+1)
		pf := fmt.Sprintf("0000:%02x:00.0", 0x41+p)
		device(bus, pf, fmt.Sprintf("ens%df0", p+1), index)
		index++
		put(bus+"/"+pf+"/driver", "-> ../../../../bus/pci/drivers/ixgbe")
		put(bus+"/"+pf+"/sriov_totalvfs", fmt.Sprintln(vfs))
		put(bus+"/"+pf+"/sriov_numvfs", fmt.Sprintln(vfs))
		for i := range vfs {
			vf := fmt.Sprintf("0000:%02x:%02x.%d", 0x41+p, 0x10+i/8, i%8)
			put(fmt.Sprintf("%s/%s/virtfn%d", bus, pf, i), "-> ../"+vf)
			put(bus+"/"+vf+"/driver", "-> ../../../../bus/pci/drivers/ixgbevf")
			put(bus+"/"+vf+"/iommu_group", fmt.Sprintf("-> ../../../../kernel/iommu_groups/%d", index))
			put(bus+"/"+vf+"/physfn", "-> ../"+pf)
			device(bus, vf, fmt.Sprintf("ens%df0v%d", p+1, i), index)
			index++
		}
	}
	return root
}

// The files of a thousand VFs with interfaces are read within limits, also in a recorded tree, where each name is
// resolved element by element.
func TestFunctionsOfManyCards(t *testing.T) {
	m := must.Get(Open(bigCards(t, 8, 127)))(t)
	defer m.Close()
	began := treetest.CPUTime(t)
	h := m.Functions(t.Context())
	took := treetest.CPUTime(t) - began
	t.Logf("8 x 127 functions with interfaces of a recorded tree in %v of CPU time", took)
	must.Need(t, len(h.NICs) == 8 && len(h.VFs) == 1016 && took <= 5*time.Second,
		"%d physical and %d virtual functions in %v of CPU time", len(h.NICs), len(h.VFs), took)
	want := facts.VF{
		PF: "ens8f0", Index: 126, PCI: "0000:48:1f.6", Group: 2 + 8*128 - 1, Driver: "ixgbevf", NIC: "ens8f0v126",
		Queues: 4, Untold: facts.VFAttributes,
	}
	if got := h.VFs[1015]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the last function:\ngot  %+v\nwant %+v", got, want)
	}
}

// The same files read with bare system calls, as on the live machine.
func BenchmarkFunctionsOf8x127VFs(b *testing.B) {
	m := must.Get(Open(bigCards(b, 8, 127)))(b)
	defer m.Close()
	for b.Loop() {
		if h := m.Functions(b.Context()); len(h.VFs) != 1016 {
			b.Fatalf("%d functions", len(h.VFs))
		}
	}
}
