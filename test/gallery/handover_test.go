package gallery

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/handover"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops/handing"
)

// platformHosts are those with guests of platforms that regenerate definitions, by the platform.
var platformHosts = map[string]facts.Platform{
	"nova-linuxbridge": facts.Nova, "nova-realtime": facts.Nova, "ovirt": facts.OVirt, "cloudstack": facts.CloudStack,
	"zstack": facts.ZStack, "kunpeng-zstack": facts.ZStack, "opennebula": facts.OpenNebula,
	"kubevirt-200g": facts.KubeVirt, "kubevirt": facts.KubeVirt, "harvester": facts.Harvester,
	"incus": facts.Incus, "proxmox-8": facts.Proxmox, "proxmox-9": facts.Proxmox,
}

// TestHandover: of guests whose platform regenerates their definitions no definition is changed, and what would be
// changed if they were the operator's is handed over; running guests are left alone without consent.
func TestHandover(t *testing.T) {
	all := allHosts(t)
	for name, platform := range platformHosts {
		at := slices.IndexFunc(all, func(s *Spec) bool { return s.Name == name })
		must.Need(t, at >= 0, "no host %s", name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flags := range goals {
				theirs, own := planOf(t, all[at], flags, false), planOf(t, all[at], flags, true)
				handed := map[setting.Address]plan.Handed{}
				for _, h := range theirs.Handover {
					must.Hold(t, h.Platform == platform && h.Why != "" && h.SetBy != "" && h.Effect != "",
						"%q: %+v", flags, h)
					handed[h.Address] = h
				}
				for _, c := range theirs.Changes {
					must.Hold(t, !plan.IsGuests(c.Address), "%q: %s is planned", flags, c.Address)
				}
				for _, c := range own.Changes {
					h, found := handed[c.Address]
					if c.Address.Kind == setting.Domain && (!found || h.Value != c.To) {
						t.Errorf("%q: %s is not handed over: %v for %v", flags, c.Address, h.Value, c.To)
					}
				}
				if len(own.Handover) > 0 {
					t.Errorf("%q: handed over although it is the operator's: %+v", flags, own.Handover[0])
				}
				checkLive(t, all[at], flags, theirs, own)
				checkWords(t, all[at], flags, theirs)
			}
		})
	}
}

// checkLive: pins of running guests need consent, and last until the platform next starts the guest.
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
	m := must.Get(s.Machine())(t)
	for g := range facts.Each(m.Guests) {
		g.Owner.Own = own
	}
	v := must.Get(judge(m, flags))(t)
	return v.plan
}

// checkWords: each value that is handed over has words, stands among what cannot be said, or is given plainly.
func checkWords(t *testing.T, s *Spec, flags string, p *plan.Plan) {
	t.Helper()
	m := must.Get(s.Machine())(t)
	g := must.Get(parseGoal(flags))(t)
	sheets := must.Get(handing.Sheets(m.Host, g, nil))(t)
	told := map[string]bool{}
	for _, sheet := range sheets {
		for _, w := range sheet.Words {
			must.Hold(t, w.Text != "" && w.Source != "", "%q: %+v", flags, w)
			for _, setting := range w.Settings {
				told[sheet.Guest+" "+setting] = true
			}
		}
		for _, u := range sheet.Unsaid {
			told[sheet.Guest+" "+u.Setting] = true
		}
		for _, v := range sheet.Plain {
			told[sheet.Guest+" "+v.Setting] = true
		}
	}
	for _, h := range p.Handover {
		must.Hold(t, told[h.Guest+" "+h.Setting], "%q: nothing is said of %s", flags, h.Address)
	}
	if s.Name == "proxmox-8" && flags == "--pps 1.8M" {
		checkProxmox(t, sheets)
	}
}

// checkProxmox: a guest that libvirt does not know is judged by its command line, and qm's lines are right.
func checkProxmox(t *testing.T, sheets []handover.Sheet) {
	t.Helper()
	must.Need(t, len(sheets) != 0, "nothing is said of Proxmox's guests")
	texts := map[string]string{}
	for _, w := range sheets[0].Words {
		texts[w.Where] = w.Text
	}
	const queues = `qm set 100 --net0 "$(qm config 100 | sed -n 's/^net0: //;T;s/,queues=[^,]*//;p'),queues=4"`
	must.Equal(t, texts["net0"], queues, "net0")
	must.Hold(t, strings.HasPrefix(texts["affinity"], "qm set 100 --affinity "), "affinity: %q", texts["affinity"])
}
