package setting

import (
	"testing"

	"mpps/internal/must"
)

func TestInsideAddresses(t *testing.T) {
	for text, inner := range map[string]string{
		"inside:vm1/sysctl:kernel.timer_migration":                   "sysctl:kernel.timer_migration",
		"inside:vm 1/sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus": "sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus",
		"inside:vm1/irq-affinity:eth0/input.0/30":                    "irq-affinity:eth0/input.0/30",
		"inside:vm1":                       "",
		"inside:vm1/":                      "",
		"inside:vm1/domain:vm2/vcpupin/0":  "", // not a value of the guest's own system
		"inside:vm1/file:etc/mpps.conf":    "",
		"inside:vm1/inside:vm2/sysctl:a.b": "",
		"inside:vm1/sysfs:../proc/sysrq":   "",
		"inside:vm1/nonesuch:a":            "",
	} {
		a, err := ParseAddress(text)
		if inner == "" {
			must.Refuse(t, err, "%s was accepted", text)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		in, err := a.Inner()
		must.Hold(t, err == nil && in.String() == inner && InGuest(a.Object(), in) == a,
			"%s: inside it is %s, %v", text, in, err)
	}
	must.Fail(Of(Sysctl, "a.b").Inner())(t, "a value of the host was taken for one inside a guest")
	w, err := Exact("3,1-2").Canonical(InGuest("vm1", Of(SysfsCPUs, "class/net/eth0/queues/tx-0/xps_cpus")))
	must.Hold(t, err == nil && w.Value == "1-3", "canonical as in the guest: %q, %v", w.Value, err)
	must.Fail(Exact("x").Canonical(InGuest("vm1", Of(NICChannels, "eth0/combined"))))(t,
		"no count was accepted for channels")
}
