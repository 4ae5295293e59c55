//go:build lab

package catalogue

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// round is one plan as a user makes it: goal flags and a site file.
type round struct {
	name string
	argv []string
	site string
}

// rounds are two goals. What the catalogue has no opinion on here, or finds in order, the site file wants otherwise:
// IGB0 is the bridge's port, IGB1 has the virtual functions. What a NIC is set up again by stands at another than what
// belongs to its queues.
var rounds = []round{
	{"packets", []string{"--pps", "1.8M", "--consent", "security"}, `# A site file as a user writes it.
- {id: nic.ring.rx, address: "nic-ring:IGB0/rx", want: 512, reason: the test}
- {id: nic.ring.tx, address: "nic-ring:IGB0/tx", want: 1024, reason: the test}
- {id: nic.channels, address: "nic-channels:VIRTIO/combined", want: 2, reason: the test}
- {id: nic.coalesce, address: "nic-coalesce:IGB0/rx-usecs", want: 50, reason: the test}
- {id: nic.offload.checksum, address: "nic-feature:IGB0/rx-checksum", want: off, reason: the test}
- {id: nic.offload.sg, address: "nic-feature:IGB1/tx-scatter-gather", want: off, reason: the test}
- {id: nic.offload.segmentation, address: "nic-feature:IGB0/tx-tcp-segmentation", want: off, reason: the test}
- {id: nic.offload.gro, address: "nic-feature:IGB0/rx-gro", want: off, reason: the test}
- {id: nic.offload.tunnel, address: "nic-feature:IGB0/tx-udp_tnl-segmentation", want: off, reason: the test}
- {id: nic.offload.nocache_copy, address: "nic-feature:IGB0/tx-nocache-copy", want: on, reason: the test}
- {id: nic.offload.udp_forward, address: "nic-feature:IGB0/rx-udp-gro-forwarding", want: on, reason: the test}
- {id: nic.irq_deferral, address: "sysfs:class/net/IGB0/napi_defer_hard_irqs", want: 2, reason: the test}
- {id: nic.irq_deferral, address: "sysfs:class/net/IGB0/gro_flush_timeout", want: 20000, reason: the test}
- {id: nic.threaded, address: "sysfs:class/net/IGB0/threaded", want: 1, reason: the test}
- {id: nic.rps, address: "sysfs-cpus:class/net/IGB0/queues/rx-0/rps_cpus", want: 0-1, reason: the test}
- {id: nic.txqueuelen, address: "sysfs:class/net/IGB0/tx_queue_len", want: 2000, reason: the test}
- {id: softirq.backlog, want: 4000, reason: the test}
- {id: softirq.budget, want: 600, reason: the test}
- {id: softirq.budget_usecs, want: 16000, reason: the test}
- {id: softirq.weight, want: 128, reason: the test}
- {id: kvm.halt_poll_ns, want: 100000, reason: the test}
- {id: kvm.nx_huge_pages, want: Y, reason: the test}
- {id: domain.queues, address: "domain:db1/interface/52:54:00:0a:00:03/driver.queues", want: 2, reason: the test}
- {id: domain.rx_queue_size, address: "domain:db1/interface/52:54:00:0a:00:02/driver.rx_queue_size", want: 512, reason: the test}
- {id: domain.tx_queue_size, address: "domain:db1/interface/52:54:00:0a:00:02/driver.tx_queue_size", want: 256, reason: the test}
- {id: domain.coalesce, address: "domain:db1/interface/52:54:00:0a:00:02/coalesce.rx.frames.max", want: 16, reason: the test}
- {id: domain.hyperv, address: "domain:win1/features/hyperv/vapic.state", want: on, reason: the test}
- {id: sriov.vf.rate, address: "vf-attr:IGB1/0/max_tx_rate", want: 100, reason: the test}
- {id: sriov.vf.spoofchk, address: "vf-attr:IGB1/0/spoofchk", want: off, reason: the test}
- {id: sriov.vf.mac, address: "vf-attr:IGB1/0/mac", want: "52:54:00:0b:00:01", reason: the test}
- {id: sriov.vf.trust, address: "vf-attr:IGB1/1/trust", want: on, reason: the test}
- {id: sriov.vf.vlan, address: "vf-attr:IGB1/1/vlan", want: 100, reason: the test}
`},
	{"latency", []string{"--latency", "20us", "--cpus", "2-3", "--consent", "security,data,connectivity"}, `
- {id: kernel.default, want: 6.1.0-1-amd64, reason: the test}
- {id: boot.mitigations, address: "kernel-arg:mitigations", want: auto, reason: the test}
- {id: boot.iommu, address: "kernel-arg:iommu", want: pt, reason: the test}
- {id: boot.idle, address: "kernel-arg:idle", want: nomwait, reason: the test}
- {id: boot.cstate, address: "kernel-arg:processor.max_cstate", want: 1, reason: the test}
- {id: boot.aspm, address: "kernel-arg:pcie_aspm.policy", want: performance, reason: the test}
- {id: boot.tsc, address: "kernel-arg:tsc", want: nowatchdog, reason: the test}
- {id: boot.hugepages, address: "kernel-arg:hugepagesz+hugepages", want: "hugepagesz=1G hugepages=1", reason: the test}
- {id: domain.hugepages, address: "domain:db1/memoryBacking/hugepages", want: default, reason: "the test: without it, after the boot that makes the pool"}
- {id: netfilter.bypass, want: absent, reason: the test}
- {id: domain.iothreadpin, address: "domain:win1/iothreadpin/1", want: 0-1, reason: the test}
- {id: domain.invtsc, address: "domain:win1/cpu/migratable", want: off, reason: the test}
- {id: domain.dedicated, address: "domain:win1/features/kvm/hint-dedicated.state", want: on, reason: the test}
- {id: rt.period, want: 2000000, reason: the test}
- {id: rt.split_lock, want: 0, reason: the test}
- {id: cpu.latency, address: "sysfs:devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", want: 100, reason: the test}
- {id: domain.vcpupin, leave: true, reason: set with the other goal}
- {id: domain.emulatorpin, leave: true, reason: set with the other goal}
- {id: domain.numatune, leave: true, reason: set with the other goal}
- {id: domain.cpu_model, leave: true, reason: set with the other goal}
`},
}

// proof is one value that was set and put back, as other programs have it.
type proof struct {
	round          string
	change         plan.Change
	was, is, after setting.Reading
}

func TestCatalogue(t *testing.T) {
	labtest.Long(t)
	exceptions := must.Get(Exceptions())(t)
	s := openScene(t)
	proofs, left := map[string][]proof{}, map[string]string{}
	for _, r := range rounds {
		s.play(r, proofs, left)
	}
	sets := map[string]bool{}
	for _, k := range knob.Catalogue() {
		if k.Check {
			continue
		}
		sets[k.ID] = true
		t.Run(k.ID, func(t *testing.T) {
			e, excepted := exceptions[k.ID]
			switch {
			case excepted && len(proofs[k.ID]) > 0:
				t.Errorf("%s is set here, and is an exception (%s)", k.ID, e.Reason)
			case excepted:
				t.Logf("not here: %s; %s: %v; mpps says %q", e.Reason, e.On, e.By, left[k.ID])
			case len(proofs[k.ID]) == 0:
				t.Errorf("no change of %s was planned, and it is no exception; mpps says %q", k.ID, left[k.ID])
			}
			for _, p := range proofs[k.ID] {
				p.check(t)
			}
		})
	}
	for _, id := range slices.Sorted(maps.Keys(proofs)) { // the files that make values last
		if !sets[id] {
			t.Run(id, func(t *testing.T) {
				for _, p := range proofs[id] {
					p.check(t)
				}
			})
		}
	}
	for id := range exceptions {
		must.Hold(t, sets[id], "exceptions.txt: no knob sets %s", id)
	}
}

// check requires that other programs saw what mpps read, what it was to give, and what there was again.
func (p proof) check(t *testing.T) {
	t.Helper()
	c := p.change
	if !p.was.Same(c.From) && c.Address.Kind != setting.RuleSet { // whose text each tool writes its own way
		t.Errorf("%s: the plan says it is %s, another program %s (%s)", c.Address, c.From, p.was, p.was.Why)
	}
	must.Hold(t, p.was.State == c.From.State,
		"%s: the plan says %s, another program %s (%s)", c.Address, c.From.State, p.was.State, p.was.Why)
	must.Hold(t, c.Want.Met(p.is), "%s: wanted %s, another program finds %s (%s)", c.Address, c.Want, p.is, p.is.Why)
	must.Hold(t, !p.is.Same(p.was), "%s: another program sees no change: %s", c.Address, p.is)
	must.Hold(t, p.after.Same(p.was),
		"%s: was %s, is %s after the rollback (%s)", c.Address, p.was, p.after, p.after.Why)
	if c.Address.Kind.IsText() { // texts of many lines
		t.Logf("%s: %s: %s, then %s, then %s", p.round, c.Address, p.was.State, p.is.State, p.after.State)
		return
	}
	t.Logf("%s: %s: %s, then %s, then %s", p.round, c.Address, p.was, p.is, p.after)
}

// play makes a plan, applies it and rolls it back, with a survey before, between and after.
func (s *scene) play(r round, proofs map[string][]proof, left map[string]string) {
	s.Helper()
	s.Put("site.yaml", s.names.Replace(r.site))
	s.Must("cp /share/site.yaml /etc/mpps/site.yaml")
	s.MPPS(2, append([]string{"plan", "--detailed-exit-code", "-o", "/share/" + r.name + ".json"}, r.argv...)...)
	p := s.readPlan(r.name + ".json")
	for _, c := range p.Skipped {
		left[c.ID] = c.Why
	}
	s.LogTime(r.name + ": planned")

	before := s.survey(p.Addresses())
	s.LogTime(r.name + ": surveyed")
	type applied struct {
		TX      string          `json:"tx"`
		State   string          `json:"state"`
		Changes []apply.Outcome `json:"changes"`
		Moved   []apply.Moved   `json:"moved"`
	}
	a := labtest.Answer[applied](s, 2, "apply", "--yes", "--detailed-exit-code", "--confirm", "0", "/share/"+r.name+".json")
	must.Hold(s, a.TX != "" && a.State == "applied" && len(a.Changes) == len(p.Changes) && len(a.Moved) <= 0,
		"%s: transaction %q %s with %d of %d changes, moved: %v", r.name, a.TX, a.State, len(a.Changes), len(p.Changes),
		a.Moved)
	s.LogTime(r.name + ": applied")
	during := s.survey(p.Addresses())
	s.LogTime(r.name + ": surveyed in between")
	s.MPPS(2, "rollback", "--detailed-exit-code", a.TX)
	s.MPPS(3, "status", "--detailed-exit-code") // nothing of mpps stands on the host
	s.LogTime(r.name + ": rolled back")
	after := s.survey(p.Addresses())
	for _, difference := range after.Differences(before) {
		s.Errorf("%s: after the rollback %s", r.name, difference)
	}
	for _, c := range p.Changes {
		proofs[c.ID] = append(proofs[c.ID], proof{r.name, c, reading(before, c.Address), reading(during, c.Address),
			reading(after, c.Address)})
	}
	s.LogTime(r.name + ": surveyed again")
}

// readPlan reads a plan that mpps has written on the host.
func (s *scene) readPlan(file string) *plan.Plan {
	s.Helper()
	f := must.Get(os.Open(filepath.Join(s.Lab.ShareDir(), file)))(s)
	defer f.Close()
	p := must.Get(plan.Decode(f))(s)
	return p
}
