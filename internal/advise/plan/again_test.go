package plan

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// drops is a rule that bridged frames run through.
func drops(line string) []facts.RuleSet {
	return []facts.RuleSet{{Tool: "iptables-legacy", Rules: 1, Lines: []string{"-t filter -A FORWARD " + line}}}
}

func consenting() goal.Goal {
	g := goal.Unlimited()
	g.Consent = []goal.Risk{goal.Security}
	return g
}

func TestAgain(t *testing.T) {
	withRule := func(line string) func() *facts.Host {
		return func() *facts.Host {
			h := small()
			h.Netfilter.Rules = drops(line)
			return h
		}
	}
	elsewhere := func() *facts.Host {
		h := lab()
		h.NICs[0].Management = ""
		return h
	}
	for name, c := range map[string]struct {
		then, now func() *facts.Host
		goal      goal.Goal
		says      []string // none: not stale
		cuts      bool
	}{
		"nothing changed":           {small, small, goal.Unlimited(), nil, false},
		"nothing changed, a way in": {lab, lab, goal.Unlimited(), nil, true},
		"a rule was added": {small, withRule("-s 10.0.0.1/32 -j DROP"), goal.Unlimited(), []string{
			"risk of sysctl:net.bridge.bridge-nf-call-iptables was none and is security, which needs --consent " +
				"security", "-s 10.0.0.1/32 -j DROP",
		}, false},
		"a rule was added, with consent": {small, withRule("-s 10.0.0.1/32 -j DROP"), consenting(), []string{
			"risk of sysctl:net.bridge.bridge-nf-call-iptables was none and is security (stops matching: ",
		}, false},
		"the same rules": {withRule("-s 10.0.0.1/32 -j DROP"), withRule("-s 10.0.0.1/32 -j DROP"), consenting(), nil,
			false},
		"the rule is gone": {withRule("-s 10.0.0.1/32 -j DROP"), small, consenting(),
			[]string{"what stops matching with sysctl:", "-s 10.0.0.1/32 -j DROP and is 0 rules"}, false},
		"another rule": {withRule("-s 10.0.0.1/32 -j DROP"), withRule("-s 10.9.9.9/32 -j DROP"), consenting(),
			[]string{"what stops matching", "10.0.0.1", "10.9.9.9"}, false},
		"the way in moved": {elsewhere, lab, goal.Unlimited(), []string{"nic eth0 was not the way in and is the way " +
			"in (default route)", "risk of nic-ring:eth0/rx was blip and is connectivity"}, true},
		"the way in left": {lab, elsewhere, goal.Unlimited(), nil, true},
		"rules in the dark": {small, func() *facts.Host {
			h := small()
			h.Unseen = []facts.Unseen{facts.RulesUnseen("nft", "", "refused")}
			return h
		}, goal.Unlimited(), []string{"which needs --consent security"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := must.Get(Make(c.then(), c.goal, knob.Catalogue(), nil))(t)
			cuts, err := Recheck(p, c.now(), knob.Catalogue())
			must.Equal(t, cuts, c.cuts, "cuts the way in")
			var stale *Stale
			if len(c.says) == 0 {
				must.Hold(t, err == nil, "found %v; expected it to fit", err)
				return
			}
			must.Need(t, errors.As(err, &stale), "found %v; expected a stale plan", err)
			all := *stale
			var text strings.Builder
			for _, d := range stale.Changed { // Error names five of them
				all.Changed = []Difference{d}
				text.WriteString(all.Error() + "\n")
			}
			for _, says := range c.says {
				must.Hold(t, strings.Contains(text.String(), says),
					"found %sexpected it to say %q", text.String(), says)
			}
		})
	}
}

// TestAgainApplied: what is as wanted already is not judged, whatever happened since.
func TestAgainApplied(t *testing.T) {
	p, err := Make(small(), goal.Unlimited(), knob.Catalogue(), nil)
	must.Do(t, err)
	h := small()
	h.Netfilter.Rules = drops("-s 10.0.0.1/32 -j DROP")
	for _, c := range p.Changes {
		h.Readings[c.Address] = c.To
	}
	if cuts, err := Recheck(p, h, knob.Catalogue()); cuts || err != nil {
		t.Errorf("%v, %v", cuts, err)
	}
}

// TestAgainByHand: a plan whose knobs the catalogue does not have is judged only by what it says itself, and by the way
// in.
func TestAgainByHand(t *testing.T) {
	h := small()
	h.Netfilter.Rules = drops("-s 10.0.0.1/32 -j DROP")
	p := &Plan{Schema: Schema, Goal: goal.Unlimited(), Changes: []Change{{
		ID: "test.1", Address: setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables"),
		From: setting.Value("1"), To: setting.Value("0"), Want: setting.Exact("0"), Risk: goal.None,
	}}}
	if cuts, err := Recheck(p, h, knob.Catalogue()); cuts || err != nil {
		t.Errorf("%v, %v", cuts, err)
	}
}

// TestTouched: a change of whatever risk touches the NIC on which it is made, and no other.
func TestTouched(t *testing.T) {
	for address, want := range map[string]string{
		"nic-coalesce:eth0/rx-usecs": "eth0", "irq-affinity:eth0/TxRx-0/9": "eth0",
		"sysfs:class/net/eth0/tx_queue_len":              "eth0",
		"sysfs-cpus:class/net/eth1/queues/rx-0/rps_cpus": "eth1", "sysctl:net.core.somaxconn": "", "service:eth0": "",
		"domain:eth0/interface/52:54:00:00:00:01/model": "", "sysfs:module/kvm_amd/parameters/avic": "",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		must.Equal(t, a.Device(), want, "%s is", address)
	}
	h := lab()
	a := setting.Of(setting.Sysctl, "net.core.somaxconn")
	mask := setting.Of(setting.SysfsCPUs, "class/net/eth0/queues/rx-0/rps_cpus")
	h.Readings[a], h.Readings[mask] = setting.Value("1"), setting.Value("1")
	for at, want := range map[setting.Address]bool{a: false, mask: true} {
		k := &knob.Knob{
			ID: "test", Tiers: goal.Tiers(), Risk: goal.None,
			Where: func(*facts.Host) []setting.Address { return []setting.Address{at} },
			Want: func(*knob.View, setting.Address) knob.Advice {
				return knob.Wants(setting.Exact("2"), "the test wants it")
			},
		}
		p, err := Make(h, goal.Unlimited(), []*knob.Knob{k}, nil)
		must.Need(t, err == nil && len(p.Changes) == 1 && len(p.Management) == 1, "%+v, %v", p, err)
		must.Equal(t, p.Management[0].Touched, want, "%s: way in touched", at)
	}
}

// TestEditedTerms: what the operator agreed to cannot be edited away.
func TestEditedTerms(t *testing.T) {
	h := lab()
	h.Netfilter.Rules = drops("-s 10.0.0.1/32 -j DROP")
	p, err := Make(h, consenting(), knob.Catalogue(), nil)
	must.Do(t, err)
	var text bytes.Buffer
	must.Do(t, Encode(&text, p))
	must.Get(Decode(bytes.NewReader(text.Bytes())))(t)
	for _, edit := range [][2]string{
		{`"risk": "security"`, `"risk": "none"`}, {`"risk": "connectivity"`, `"risk": "blip"`},
		{`"needs": "restart of guest vm1"`, `"needs": ""`}, {"-s 10.0.0.1/32 -j DROP", "-s 10.0.0.2/32 -j DROP"},
		{`"touched": true`, `"touched": false`},
	} {
		edited := strings.Replace(text.String(), edit[0], edit[1], 1)
		if edited == text.String() {
			t.Errorf("no %s in the plan", edit[0])
		}
		if _, err := Decode(strings.NewReader(edited)); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), "edited or damaged") {
			t.Errorf("%s for %s: found %v; expected it to be refused", edit[1], edit[0], err)
		}
	}
}
