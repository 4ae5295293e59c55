package gallery

import (
	"slices"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// platformHosts are those with guests of platforms that make definitions anew, by the platform.
var platformHosts = map[string]facts.Platform{
	"nova-linuxbridge": facts.Nova, "nova-realtime": facts.Nova, "ovirt": facts.OVirt, "cloudstack": facts.CloudStack,
	"zstack": facts.ZStack, "kunpeng-zstack": facts.ZStack, "opennebula": facts.OpenNebula,
	"kubevirt-200g": facts.KubeVirt, "kubevirt": facts.KubeVirt, "harvester": facts.Harvester,
	"proxmox-8": facts.Proxmox, "proxmox-9": facts.Proxmox,
}

// TestHandover: of guests whose platform makes their definitions anew no definition is changed, and what would be
// changed if they were the operator's is handed over; running guests are left alone without consent.
func TestHandover(t *testing.T) {
	all := allHosts(t)
	for name, platform := range platformHosts {
		at := slices.IndexFunc(all, func(s *Spec) bool { return s.Name == name })
		if at < 0 {
			t.Fatalf("no host %s", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flags := range goals {
				theirs, own := planOf(t, all[at], flags, false), planOf(t, all[at], flags, true)
				handed := map[setting.Address]plan.Handed{}
				for _, h := range theirs.Handover {
					if h.Platform != platform || h.Why == "" || h.SetBy == "" || h.Effect == "" {
						t.Errorf("%q: %+v", flags, h)
					}
					handed[h.Address] = h
				}
				for _, c := range theirs.Changes {
					if plan.IsGuests(c.Address) {
						t.Errorf("%q: %s is planned", flags, c.Address)
					}
				}
				for _, c := range own.Changes {
					h, found := handed[c.Address]
					if c.Address.Kind == setting.Domain && (!found || h.Value != c.To) {
						t.Errorf("%q: %s is not handed over", flags, c.Address)
					}
				}
				if len(own.Handover) > 0 {
					t.Errorf("%q: handed over although it is the operator's: %+v", flags, own.Handover[0])
				}
				checkLive(t, all[at], flags, theirs, own)
			}
		})
	}
}

// checkLive: pins of running guests need consent, and last until the platform starts the guest anew.
func checkLive(t *testing.T, s *Spec, flags string, theirs, own *plan.Plan) {
	t.Helper()
	live := func(all []plan.Change) (list []setting.Address) {
		for _, c := range all {
			if plan.IsGuests(c.Address) && c.Address.Kind != setting.Domain {
				list = append(list, c.Address)
			}
		}
		return list
	}
	consented := planOf(t, s, flags+" --consent platform", false)
	for _, c := range consented.Changes {
		if plan.IsGuests(c.Address) && (c.Risk != goal.Platform || c.Lasts != setting.UntilPlatform) {
			t.Errorf("%q: %s at risk %s, lasts %s", flags, c.Address, c.Risk, c.Lasts)
		}
	}
	if asked := live(theirs.Consent); len(live(own.Changes)) > 0 && len(asked) == 0 {
		t.Errorf("%q: %s need no consent", flags, live(own.Changes))
	}
}

// planOf returns the plan for a host, whose guests are the operator's if own is set.
func planOf(t *testing.T, s *Spec, flags string, own bool) *plan.Plan {
	t.Helper()
	m, err := s.Machine()
	if err != nil {
		t.Fatal(err)
	}
	for g := range facts.Each(m.Guests) {
		g.Owner.Own = own
	}
	v, err := judge(m, flags)
	if err != nil {
		t.Fatal(err)
	}
	return v.plan
}
