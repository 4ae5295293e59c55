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

// small is a host with a bridge in netfilter's way and nothing else.
func small() *facts.Host {
	h := &facts.Host{
		Name: "h", Readings: facts.Readings{}, Netfilter: facts.Netfilter{BridgeModule: true},
		Bridges: []facts.Bridge{{Name: "br0", Up: true}},
	}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Missing("no such file")
	}
	h.Readings[setting.Of(setting.KernelArg, "pcie_aspm.policy")] = setting.Value("performance")
	for _, call := range []string{"iptables", "ip6tables"} {
		h.Readings[setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-"+call)] = setting.Value("1")
		h.Readings[setting.Of(setting.Sysfs, "class/net/br0/bridge/nf_call_"+call)] = setting.Value("1")
	}
	return h
}

func TestMake(t *testing.T) {
	h := small()
	p := must.Get(Make(h, goal.Unlimited(), knob.Catalogue(), nil))(t)
	var order []string
	for _, c := range p.Changes {
		order = append(order, c.Address.String())
	}
	want := "sysfs:class/net/br0/bridge/nf_call_iptables sysfs:class/net/br0/bridge/nf_call_ip6tables " +
		"sysctl:net.bridge.bridge-nf-call-iptables sysctl:net.bridge.bridge-nf-call-ip6tables"
	must.Equal(t, strings.Join(order, " "), want, "changes")

	var text bytes.Buffer
	must.Do(t, Encode(&text, p))
	read, err := Decode(bytes.NewReader(text.Bytes()))
	must.Do(t, err)
	must.Try(t, Check(read, h))
	h.Readings[p.Changes[2].Address] = setting.Value("0")
	h.Kernel.Release = "6.99"
	var stale *Stale
	if err := Check(read, h); !errors.As(err, &stale) {
		t.Fatalf("found %v; expected a stale plan", err)
	}
	must.Hold(t, len(stale.Changed) == 2 &&
		stale.Changed[1] == (Difference{"sysctl:net.bridge.bridge-nf-call-iptables", "1", "0"}),
		"changed %+v", stale.Changed)
	edited := strings.Replace(text.String(), `"value": "0"`, `"value": "2"`, 1)
	must.Is(t, must.Err(Decode(strings.NewReader(edited))), ErrFormat, "an edited plan was")
}
