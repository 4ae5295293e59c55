//go:build lab

package catalogue

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/test/survey"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// The guests: one that runs, with a NIC that vhost serves and an emulated one, and one of Windows that is only defined.
const (
	guestName  = "db1"
	windowName = "win1"
	vhostMAC   = "52:54:00:0a:00:02"
	e1000MAC   = "52:54:00:0a:00:03"
)

// windows is a definition with an enlightenment, which tells a Windows guest.
const windows = `<domain type='kvm'>
  <name>` + windowName + `</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <iothreads>1</iothreads>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/><hyperv mode='custom'><relaxed state='on'/></hyperv></features>
  <cpu mode='host-passthrough'/>
  <clock offset='localtime'/>
</domain>
`

// furnish leaves as much as can be in a state that some goal finds fault with.
const furnish = `set -e
mkdir -p /etc/mpps
modprobe -a br_netfilter zram
echo 64M > /sys/block/zram0/disksize
mkswap -q /dev/zram0
swapon -p 5 /dev/zram0
[ -e /sys/class/net/br0 ] || ip link add br0 type bridge forward_delay 0
ip addr replace 10.50.0.1/24 dev br0
ip link set br0 up
for n in /sys/class/net/*; do
	case $(<$n/address) in
	` + lab.MACigb0 + `) ip link set ${n##*/} master br0 up ;;
	` + lab.MACigb1 + `)
		ip link set ${n##*/} up
		echo 0 > $n/device/sriov_drivers_autoprobe
		echo 2 > $n/device/sriov_numvfs ;;
	` + lab.MACvirtio + `) ip link set ${n##*/} up ;;
	esac
done
echo 1 > /sys/class/net/br0/bridge/nf_call_iptables
iptables-legacy -A FORWARD -s 192.0.2.1 -m comment --comment "a host that is gone" -j RETURN
iptables-legacy -t raw -A PREROUTING -i vnet7 -j NFLOG --nflog-group 5
nft add table ip filter
nft add chain ip filter forward '{ type filter hook forward priority filter; policy accept; }'
nft add rule ip filter forward ip saddr 192.0.2.2 drop
# The boot menu, with an older kernel than the one that runs.
echo older > /boot/vmlinuz-6.1.0-1-amd64
printf '# of this site\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n' > /etc/default/grub.d/50-site.cfg
update-grub
echo always > /sys/kernel/mm/transparent_hugepage/defrag
echo 1 > /sys/kernel/mm/ksm/run
echo sched:sched_process_exec > /sys/kernel/tracing/set_event
echo blk > /sys/kernel/tracing/current_tracer
`

// scene is the host while one test uses it.
type scene struct {
	*labtest.Scene
	names *strings.Replacer // of NICs, in addresses
}

// openScene boots the host, leaves it in disorder and starts its guest. rcutree.use_softirq=0 gives it the threads that
// realtime kernels have.
func openScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Fresh, labtest.Args("rcutree.use_softirq=0")))}
	furnished := func(ctx context.Context) error {
		_, err := s.Lab.Must(ctx, furnish)
		return err
	}
	must.Do(t, furnished(t.Context()))
	s.LogTime("the host is in disorder")
	must.Get(s.Lab.StartGuestFresh(t.Context(), lab.GuestSpec{
		Name: guestName, Binary: labtest.Init(t), VCPUs: 2, MemoryMiB: 256, Args: []string{"mpps.secret=catalogue"},
		NICs: []lab.NIC{
			{Model: lab.Vhost, Queues: 2, Bridge: "br0", MAC: vhostMAC, Addr: "10.50.0.2/24"},
			{Model: lab.E1000, Bridge: "br0", MAC: e1000MAC},
		},
	}, furnished))(t)
	s.Put("win1.xml", windows)
	s.Must("virsh -q define /share/win1.xml")
	var names []string
	known := map[string]string{lab.MACigb0: "IGB0", lab.MACigb1: "IGB1", lab.MACvirtio: "VIRTIO"}
	for line := range strings.Lines(
		s.Must(`for n in /sys/class/net/*; do [ ! -e $n/device ] || echo $(<$n/address) ${n##*/}; done`)) {
		mac, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		names = append(names, known[mac], name)
	}
	must.Need(t, len(names) == 2*len(known), "expected %d NICs, found %v", len(known), names)
	s.names = strings.NewReplacer(names...)
	s.LogTime("the guest runs")
	return s
}

// survey asks the other programs.
func (s *scene) survey(addresses []setting.Address) *survey.Survey {
	s.Helper()
	all := append(survey.Whole(), "virsh dumpxml --inactive "+guestName, "virsh dumpxml --inactive "+windowName)
	v := must.Get(survey.Take(func(script string) (string, error) { return s.Lab.Must(s.Context(), script) }, addresses,
		all...))(s)
	return v
}

// reading is what a survey has at an address.
func reading(v *survey.Survey, a setting.Address) setting.Reading {
	r, err := v.At(a)
	if err != nil {
		return setting.CouldNotTell(fmt.Sprint(err))
	}
	return r
}
