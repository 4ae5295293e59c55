//go:build lab

package e2e

import (
	"maps"
	"slices"
	"strings"

	"mpps/internal/model/setting"
	"mpps/internal/must"
	others "mpps/test/survey"
)

// survey is what other programs than mpps say of the host.
type survey struct {
	*others.Survey
	b *box
}

// survey asks all programs, of NICs about those that the given addresses name (all where they name none).
func (b *box) survey(addresses ...setting.Address) *survey {
	b.Helper()
	commands := append(slices.Sorted(maps.Values(others.RuleSets())),
		`sysctl -a -r '^(net\.core|net\.ipv4\.conf|net\.ipv4\.tcp|net\.bridge|vm|kernel\.(sched|numa))'`,
		"grep -H . /sys/class/net/*/queues/*/xps_cpus /sys/class/net/*/queues/*/rps_cpus",
		"grep -H . /proc/irq/*/smp_affinity_list",
		"virsh dumpxml --inactive "+guestName,
		others.Threads(guestName),
		others.Bridges(),
	)
	nics := b.nics()
	if named := slices.DeleteFunc(slices.Clone(nics), func(nic string) bool {
		return !slices.ContainsFunc(addresses, func(a setting.Address) bool {
			return a.Object() == nic || strings.HasPrefix(a.Path, "class/net/"+nic+"/")
		})
	}); len(named) > 0 {
		nics = named
	}
	for _, nic := range nics {
		for _, what := range []string{"-l", "-g", "-c", "-k"} {
			commands = append(commands, "ethtool "+what+" "+nic)
		}
		for _, flow := range []string{"udp4", "udp6"} {
			commands = append(commands, "ethtool -n "+nic+" rx-flow-hash "+flow)
		}
	}
	s := must.Get(others.Take(func(script string) (string, error) { return b.Lab.Must(b.Context(), script) }, addresses,
		commands...))(b)
	return &survey{s, b}
}

// threads asks about the threads of the guest's QEMU alone: a whole survey starts some sixty programs.
func (b *box) threads() *survey {
	b.Helper()
	s := must.Get(others.Take(func(script string) (string, error) { return b.Lab.Must(b.Context(), script) }, nil,
		others.Threads(guestName)))(b)
	return &survey{s, b}
}

// nics are the host's NICs with drivers of hardware.
func (b *box) nics() []string {
	return slices.Sorted(maps.Values(b.names))
}

// same requires that two surveys are equal byte for byte. A survey of one more address asks one command more.
func (s *survey) same(b *box, before *survey) {
	b.Helper()
	for _, difference := range s.Differences(before.Survey) {
		b.Error(difference)
	}
}

// of is the answer of the first command that begins so.
func (s *survey) of(command string) string {
	s.b.Helper()
	text, asked := s.Of(command)
	must.Need(s.b, asked, "survey: nobody was asked %q", command)
	return text
}

// threads are those of the guest's QEMU, as taskset and ps list them.
func (s *survey) threads() string {
	s.b.Helper()
	return s.of(others.Threads(guestName))
}

// thread is the affinity of one of the guest's threads: "vcpu/0", "emulator" or "vhost/MAC/QUEUE".
func (s *survey) thread(role string) (string, bool) {
	s.b.Helper()
	r := s.at(setting.Address{Kind: setting.ThreadAffinity, Path: guestName + "/" + role})
	return r.Value, r.State == setting.Known
}

// at is the reading at an address as the other program has it.
func (s *survey) at(a setting.Address) setting.Reading {
	s.b.Helper()
	r := must.Get(s.At(a))(s.b)
	return r
}

// line is what stands behind the first line that begins with a label.
func line(text, label string) (string, bool) {
	for l := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(l), label); found {
			return strings.Join(strings.Fields(rest), " "), true
		}
	}
	return "", false
}
