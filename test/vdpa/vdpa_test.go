//go:build lab

package vdpa

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// device is in the environment of the process that implements it.
const device = "MPPS_VDUSE"

func TestMain(m *testing.M) {
	if name := os.Getenv(device); name != "" {
		fmt.Fprintln(os.Stderr, implement(name, 2, 1400))
		os.Exit(1)
	}
	os.Exit(labtest.Main(m))
}

const guest = `<domain type='kvm'><name>vd1</name><memory unit='MiB'>64</memory><vcpu>4</vcpu>
<os><type machine='q35'>hvm</type></os><devices><interface type='vdpa'><mac address='52:54:00:00:00:09'/>
<source dev='/dev/vhost-vdpa-0'/><model type='virtio'/></interface></devices></domain>`

// TestDeviceIsRead makes a device with two queue pairs and a guest that has it: mpps tells the same of it as the vdpa
// program, draws it, and does not judge what the process does.
func TestDeviceIsRead(t *testing.T) {
	labtest.Long(t)
	s := labtest.On(t, labtest.Host(t, labtest.Systemd))
	must.Do(t, s.Lab.Put("vdpa.test", must.Get(os.Executable())(t)))
	s.Put("vd1.xml", guest)
	s.Must(`set -e; modprobe -a vduse vhost_vdpa
` + device + `=vduse7 /share/vdpa.test >/run/vduse.log 2>&1 </dev/null & echo $! >/run/vduse.pid
for i in $(seq 300); do [ ! -e /dev/vhost-vdpa-0 ] || break; sleep 0.1; done; [ -e /dev/vhost-vdpa-0 ] || { cat /run/vduse.log >&2; exit 1; }
virsh -q define /share/vd1.xml`)
	t.Cleanup(func() {
		s.Must("virsh -q undefine vd1; vdpa dev del vduse7; kill $(cat /run/vduse.pid); rm /run/vduse.*")
	})
	told := s.Must("vdpa dev config show vduse7")
	must.Contain(t, told, "max_vq_pairs 2", "mtu 1400")

	h := labtest.Answer[facts.Host](s, 0, "inspect")
	want := facts.VDPA{Name: "vduse7", Node: "/dev/vhost-vdpa-0", Parent: facts.VDUSE, Queues: 2, MTU: 1400}
	must.Need(t, len(h.VDPA) == 1, "%+v, while vdpa says %s", h.VDPA, told)
	got := h.VDPA[0]
	got.MostQueues = 0 // VDUSE sets no bound that means anything
	must.Equal(t, got, want, "while vdpa says %s", told)

	drawn := s.MPPS(0, "inspect").Stdout
	must.Contain(t, strings.Join(strings.Fields(drawn), " "), "vduse7 vduse serves the vrings", "2 queue pairs, MTU 1400")
	r := labtest.Answer[audit.Report](s, 0, "audit", "--guest", "vd1", "--pps", "500k", "--nic", "virtio")
	for _, f := range r.Findings {
		if f.ID == "domain.vdpa" {
			must.Hold(t, f.State == audit.Unknown && strings.Contains(f.Why, "VDUSE"), "%+v", f)
			return
		}
	}
	t.Errorf("the audit says nothing of vd1's device: %+v", r.Findings)
}
