package facts

import (
	"testing"

	"mpps/internal/must"
)

func TestRole(t *testing.T) {
	running, off := Guest{Name: "a", State: "running"}, Guest{Name: "b", State: "shut off"}
	for name, c := range map[string]struct {
		h    Host
		want Role
	}{
		"guests":                   {Host{AsRoot: true, KVM: KVM{Loaded: true}, Guests: []Guest{running, off}}, RoleHost},
		"a guest, without root":    {Host{Guests: []Guest{running}}, RoleHost},
		"a guest without KVM":      {Host{AsRoot: true, Guests: []Guest{running}}, RoleHost},
		"a guest in a guest":       {Host{AsRoot: true, Virtual: "kvm", Guests: []Guest{running}}, RoleHost},
		"none runs":                {Host{AsRoot: true, KVM: KVM{Loaded: true}, Guests: []Guest{off}}, RoleIdle},
		"others run":               {Host{AsRoot: true, Guests: []Guest{off}, Taps: []Tap{{Name: "t", Up: true}}}, RoleUnseen},
		"none yet":                 {Host{AsRoot: true, KVM: KVM{Loaded: true}}, RoleEmpty},
		"no KVM":                   {Host{AsRoot: true}, RoleNoKVM},
		"nothing readable":         {Host{}, RoleUnseen},
		"without root":             {Host{KVM: KVM{Loaded: true}}, RoleUnseen},
		"libvirt does not answer":  {Host{AsRoot: true, Unseen: []Unseen{GuestsUnseen("refused")}}, RoleUnseen},
		"a definition is damaged":  {Host{AsRoot: true, Unseen: []Unseen{DefinitionUnseen("a", "EOF")}}, RoleUnseen},
		"something else is hidden": {Host{AsRoot: true, Unseen: []Unseen{RulesUnseen("nft", "", "no")}}, RoleNoKVM},
		"Xen":                      {Host{AsRoot: true, KVM: KVM{Loaded: true, XenDom0: true}}, RoleXen},
		"RISC-V":                   {Host{AsRoot: true, Kernel: Kernel{Arch: "riscv64"}, Guests: []Guest{running}}, RoleArch},
		"IBM Z":                    {Host{AsRoot: true, Kernel: Kernel{Arch: "s390x"}, Guests: []Guest{running}}, RoleHost},
		"a virtual machine":        {Host{AsRoot: true, Virtual: "kvm", KVM: KVM{Loaded: true}}, RoleGuest},
	} {
		got := c.h.Role()
		must.Equal(t, got, c.want, "%s", name)
		if silent := got.Why() == ""; silent != (got == RoleHost) {
			t.Errorf("%s: role %s says %q", name, got, got.Why())
		}
	}
}
