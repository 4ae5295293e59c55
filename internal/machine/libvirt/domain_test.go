package libvirt

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestMechanismsOfGuestsOnARecordedHost(t *testing.T) {
	m := guestHost(t)
	all := Mechanisms(m, new(Definitions))
	for address, want := range map[string]string{
		"domain:vm 1/vcpupin/1":                                 "0-1,3",
		"domain:vm 1/vcpupin/0":                                 "absent",
		"domain:vm 1/interface/52:54:00:aa:00:01/driver.queues": "2",
		"domain:vm2/interface/52:54:00:bb:00:01/driver.queues":  "2",
		"domain:gone/vcpupin/0":                                 "absent",
		"domain:bad/vcpupin/0":                                  "unknown",
		"domain:vm 1/no/such/path":                              "unknown",
		"thread-affinity:vm 1/vcpu/0":                           "2",
		"thread-affinity:vm 1/vcpu/1":                           "absent",
		"thread-affinity:vm 1/emulator":                         "0-1",
		"thread-affinity:vm 1/iothread/3":                       "0-3",
		"thread-affinity:vm 1/vhost/52:54:00:aa:00:01/0":        "3",
		"thread-affinity:vm 1/vhost/52:54:00:aa:00:01/1":        "absent",
		"thread-affinity:wild/vhost/52:54:00:cc:00:01/1":        "1",
		"thread-affinity:wild/vhost/52:54:00:cc:00:01/0":        "unknown", // its status file is missing
		"thread-affinity:vm2/emulator":                          "absent",
		"thread-affinity:vm 1/vhost":                            "absent",
		"thread-affinity:vm 1/worker/0":                         "absent",
	} {
		a := must.Get(setting.ParseAddress(address))(t)
		if found := all.Read(t.Context(), a); found.String() != want {
			t.Errorf("%s: expected %s, found %s (%s)", address, want, found, found.Why)
		}
	}
	err := all.Write(t.Context(), setting.Of(setting.ThreadAffinity, "vm 1", "emulator"), setting.Value("0"))
	must.Is(t, err, tree.ErrNotLive, "writing to a recorded tree")
	err = all.Write(t.Context(), setting.Of(setting.Domain, "vm 1", "vcpupin", "0"), setting.Value("0"))
	must.Is(t, err, tree.ErrNotLive, "defining in a recorded tree")
}

// keeper is a libvirt that stores one definition and may alter it.
type keeper struct {
	text  string
	alter func(string) string
	fail  error
	given []string
}

func (k *keeper) all(context.Context) (guestList, error) { return guestList{}, nil }
func (k *keeper) definition(_ context.Context, guest string, secrets bool) (string, error) {
	if guest != "vm 1" {
		return "", errNoGuest
	}
	if !secrets {
		return secret.ReplaceAllString(k.text, ""), nil
	}
	return k.text, nil
}
func (k *keeper) running(context.Context, string) (string, error) { return "", errNoGuest }
func (k *keeper) define(_ context.Context, text string) error {
	if k.fail != nil {
		return k.fail
	}
	k.given = append(k.given, text)
	k.text = k.alter(text)
	return nil
}

func TestDefinitionsAreEditedInPlace(t *testing.T) {
	same := func(text string) string { return text }
	k := &keeper{text: definedXML, alter: same}
	path := "interface/52:54:00:aa:00:01/driver.queues"
	must.Do(t, redefine(t.Context(), k, "vm 1", path, setting.Value("4")))
	must.Equal(t, k.text, strings.Replace(definedXML, "queues='2'", "queues='4'", 1),
		"expected only the number of queues to change")
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("4")); err != nil || len(k.given) != 1 {
		t.Errorf("the same value was written again (%d definitions, %v)", len(k.given), err)
	}
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("2")); err != nil || k.text != definedXML {
		t.Errorf("put back: %v\n%s", err, k.text)
	}
	must.Do(t, redefine(t.Context(), k, "vm 1", "vcpupin/0", setting.Value("3")))
	if err := redefine(t.Context(), k, "vm 1", "vcpupin/0", setting.Missing("")); err != nil || k.text != definedXML {
		t.Errorf("taken out again: %v\n%s", err, k.text)
	}
}

// TestWhatLibvirtAddsGoesWithItsValue: libvirt adds a mode to a nodeset when it stores the definition, and refuses a
// mode without a nodeset.
func TestWhatLibvirtAddsGoesWithItsValue(t *testing.T) {
	bare := strings.Replace(definedXML, "  <numatune>\n    <memory mode='strict' nodeset='1'/>\n  </numatune>\n", "", 1)
	k := &keeper{text: bare, alter: func(text string) string {
		return strings.Replace(text, "<memory nodeset=", "<memory mode='strict' nodeset=", 1)
	}}
	path := "numatune/memory.nodeset"
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("1")); err != nil ||
		!strings.Contains(k.text, "mode='strict' nodeset='1'") {
		t.Fatalf("%v\n%s", err, k.text)
	}
	if err := redefine(t.Context(), k, "vm 1", path, setting.Missing("not in the definition")); err != nil ||
		k.text != bare {
		t.Errorf("taken out again: %v\n%s", err, k.text)
	}
}

// TestValuesThatWouldBeRefusedCanBePutBack: a definition has more queues than allowed, mpps corrects it, and a rollback
// restores it.
func TestValuesThatWouldBeRefusedCanBePutBack(t *testing.T) {
	odd := strings.Replace(definedXML, "queues='2'", "queues='3000'", 1)
	doc := must.Get(domain.Parse([]byte(odd)))(t)
	path := "interface/52:54:00:aa:00:01/driver.queues"
	before, err := valueIn(doc, path)
	must.Need(t, err == nil && before.Value == "3000" && before.AsFound, "found %+v, %v", before, err)
	k := &keeper{text: odd, alter: func(text string) string { return text }}
	must.Do(t, redefine(t.Context(), k, "vm 1", path, setting.Value("4")))
	must.Refuse(t, redefine(t.Context(), k, "vm 1", path, setting.Value("3000")), "3000 queues were set")
	before.Why = "other words"
	if err := redefine(t.Context(), k, "vm 1", path, before); err != nil || k.text != odd {
		t.Errorf("not put back: %v\n%s", err, k.text)
	}
}

func TestRefusedDefinitionsLeaveTheGuestAsItWas(t *testing.T) {
	path := "interface/52:54:00:aa:00:01/driver.queues"
	refusal := errors.New("unsupported configuration")
	first := true
	cases := map[string]struct {
		keeper      keeper
		guest, path string
		to          setting.Reading
		want        string
	}{
		"libvirt refuses": {keeper{fail: refusal}, "vm 1", path, setting.Value("4"), "unsupported configuration"},
		"libvirt knows better": {keeper{alter: func(string) string { return definedXML }}, "vm 1", path,
			setting.Value("4"), "wanted 4, but libvirt made it 2"},
		"no such guest": {keeper{}, "gone", path, setting.Value("4"), "no such guest"},
		"no such interface": {keeper{}, "vm 1", "interface/52:54:00:00:00:99/driver.queues", setting.Value("4"),
			"no such interface"},
		"no such path": {keeper{}, "vm 1", "devices/disk", setting.Value("4"), "not a path"},
		"nonsense":     {keeper{}, "vm 1", path, setting.Value("many"), "many"},
		"unknown":      {keeper{}, "vm 1", path, setting.CouldNotTell("why"), "unknown value"},
		"altered, then put back": {keeper{alter: func(text string) string {
			if first {
				first = false
				return strings.Replace(text, "queues='4'", "queues='3'", 1)
			}
			return text
		}}, "vm 1", path, setting.Value("4"), "but libvirt made it 3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := &c.keeper
			k.text = definedXML
			err := redefine(t.Context(), k, c.guest, c.path, c.to)
			must.Hold(t, err != nil && strings.Contains(err.Error(), c.want),
				"expected an error with %q, found %v", c.want, err)
			must.Equal(t, k.text, definedXML, "the guest is not as it was")
		})
	}
}

func TestParseDomstats(t *testing.T) {
	found := parseDomstats("Domain: 'lab one'\n  state.state=1\n  state.reason=1\n\nDomain: 'it's'\n  " +
		"state.state=5\n  state.reason=0\n\nDomain: 'x'\n  state.state=99\n")
	want := []libvirtGuest{{Name: "lab one", state: "running"}, {Name: "it's", state: "shut off"},
		{Name: "x", state: "no state"}}
	must.Hold(t, reflect.DeepEqual(found, want), "expected %+v, found %+v", want, found)
	l, q := parseVersions("Compiled against library: libvirt 11.3.0\nUsing library: libvirt 11.3.0\nUsing API: QEMU " +
		"11.3.0\nRunning hypervisor: QEMU 10.0.13\n")
	must.Hold(t, l == "11.3.0" && q == "10.0.13", "found libvirt %q, QEMU %q", l, q)
	must.Equal(t, Quote("it's; rm"), `'it'\''s; rm'`, "quoted as")
}

// TestDefinitionsAreReadAnewWhenTheyChange reads a definition, changes its file, and reads it again.
func TestDefinitionsAreReadAnewWhenTheyChange(t *testing.T) {
	m := guestHost(t)
	a := setting.Of(setting.Domain, "vm2", "vcpupin", "1")
	for _, want := range []string{"0-1,3", "7"} {
		if found := (domains{m, new(Definitions)}).Read(t.Context(), a); found.Value != want {
			t.Errorf("expected %s, found %+v", want, found)
		}
		text := strings.Replace(definedXML, "cpuset='0-3,^2'", "cpuset='7'", 1)
		must.Do(t, m.Root.WriteFile("etc/libvirt/qemu/vm2.xml", []byte(text+"\n"), 0o644))
	}
}

// TestWholeInterfacesComeBack at the address where libvirt had placed them or, if another device has that address now,
// at another one.
func TestWholeInterfacesComeBack(t *testing.T) {
	const path, place = "interface/52:54:00:aa:00:01", "      <address type='pci' domain='0x0000' bus='0x01' " +
		"slot='0x00' function='0x0'/>\n"
	text := strings.Replace(pooledXML, "<name>pooled<", "<name>vm 1<", 1)
	k := &keeper{text: text, alter: func(text string) string { return text }}
	doc := must.Get(domain.Parse([]byte(text)))(t)
	before, err := valueIn(doc, path)
	must.Need(t, err == nil && before.Value == "network=pool model=virtio" &&
		strings.Contains(before.Verbatim, strings.TrimSpace(place)) && before.Why == "", "found %+v, %v", before, err)
	if err := redefine(t.Context(), k, "vm 1", path, setting.Missing("removed")); err != nil ||
		strings.Contains(k.text, "network='pool'") {
		t.Fatalf("%v\n%s", err, k.text)
	}
	without := k.text
	before.Why = "other words"
	if err := redefine(t.Context(), k, "vm 1", path, before); err != nil || k.text != text {
		t.Errorf("%v\n%s", err, k.text)
	}
	k.text = without
	taken := errors.New("XML error: Attempted double use of PCI Address 0000:01:00.0")
	refusing := &picky{keeper: k, refuses: place, err: taken}
	if err := redefine(t.Context(), refusing, "vm 1", path, before); err != nil ||
		!strings.Contains(k.text, "network='pool'") || strings.Contains(k.text, place) {
		t.Errorf("%v\n%s", err, k.text)
	}
	k.text, refusing.refuses = without, "network='pool'"
	if err := redefine(t.Context(), refusing, "vm 1", path, before); !errors.Is(err, taken) || k.text != without {
		t.Errorf("%v\n%s", err, k.text)
	}
}

// picky is a libvirt that refuses definitions with a certain text.
type picky struct {
	*keeper
	refuses string
	err     error
}

func (p *picky) define(ctx context.Context, text string) error {
	if strings.Contains(text, p.refuses) {
		return p.err
	}
	return p.keeper.define(ctx, text)
}
