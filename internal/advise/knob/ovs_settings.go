package knob

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// ovsSetting is a key of Open_vSwitch.other_config (ovs-vswitchd.conf.db(5)).
type ovsSetting struct {
	name, key, title string
	risk             goal.Risk
	otherwise        int64 // value that an absent key stands for; 0: it depends on the host
	// mpps sets it. Until it does, the value is reported as a fact of the host.
	sets bool
}

// reading returns the value that the key has.
func (s ovsSetting) reading(v *View, o *facts.OpenVSwitch) setting.Reading {
	if s.sets {
		return v.Readings.At(setting.Of(setting.OVSDB, s.key))
	}
	if text, has := o.Config[s.key]; has {
		return setting.Value(text)
	}
	return setting.Missing("not set")
}

// knob returns the setting's knob. Its opinion is asked with the value that the key has or stands for.
func (s ovsSetting) knob(want func(v *View, o *facts.OpenVSwitch, now int64) Advice) *Knob {
	k := ovsCheck(s.name, s.title, func(v *View, o *facts.OpenVSwitch) Advice {
		reading, now := s.reading(v, o), s.otherwise
		if !o.Known() || reading.State == setting.Unknown {
			return Unsure("Open vSwitch's database was not read")
		}
		if reading.State == setting.Known {
			var err error
			if now, err = strconv.ParseInt(reading.Value, 10, 64); err != nil {
				return Unsure(s.key + " of other_config is no number")
			}
		}
		advice := want(v, o, now)
		if s.otherwise > 0 {
			advice = advice.byDefault(strconv.FormatInt(s.otherwise, 10))
		}
		if !s.sets {
			advice.Found = &reading
		}
		return advice
	})
	k.Risk = s.risk
	if s.sets {
		k.Check, k.Where = false, onPaths(reach.OpenVSwitch, fixed(setting.Of(setting.OVSDB, s.key)))
	}
	return k
}

var ovsHandlers = ovsSetting{
	name: "handlers", key: "n-handler-threads", title: "Upcalls have enough handler threads", risk: goal.Blip,
	sets: true,
}.knob(func(v *View, o *facts.OpenVSwitch, now int64) Advice {
	// ofproto/ofproto-dpif-upcall.c, udpif_set_threads: a quarter of the CPUs and one are revalidators
	cpus := int64(max(len(v.Topology.Online), 2))
	usual := max(cpus-(cpus/4+1), 1)
	switch {
	case len(o.Datapaths) == 0:
		return Unsure("the datapath was not read: with upcalls per CPU the value is not used")
	case slices.ContainsFunc(o.Datapaths, func(d facts.KernelDatapath) bool { return d.PerCPU }):
		return Fine("each CPU has its handler: the value is not used")
	case now == 0:
		return Fine(fmt.Sprintf("ovs-vswitchd chooses by the number of CPUs: %d", usual))
	}
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	switch lost := v.lostUpcalls(); {
	case lost == 0:
		return Fine("no upcall was lost " + v.overInterval())
	case now >= usual:
		return Fine(fmt.Sprintf("as many as ovs-vswitchd would choose, though %d upcalls were lost %s: ovs.upcalls",
			lost, v.overInterval()))
	default:
		return Wants(setting.Least(usual), fmt.Sprintf("%d upcalls were lost %s, and without the key ovs-vswitchd "+
			"would have %d handlers", lost, v.overInterval(), usual)).At(Medium).
			warn("handlers and revalidators are started again: upcalls wait, or are lost, while that lasts")
	}
})

// Defaults of ofproto/ofproto.h: OFPROTO_FLOW_LIMIT_DEFAULT, OFPROTO_MAX_IDLE_DEFAULT in ms.
const (
	flowLimit = 200_000
	maxIdle   = 10_000
)

// maxFlows bounds flow-limit: revalidators look at each flow twice a second or more (max-revalidator), and ovs-vswitchd
// lowers the limit by itself while one round takes longer than 1.3 s (udpif_revalidator).
const maxFlows = 1 << 20

var ovsFlowLimit = ovsSetting{
	name: "flow_limit", key: "flow-limit", title: "The datapath has room for flows", otherwise: flowLimit,
	risk: goal.None,
	sets: true,
}.knob(func(v *View, o *facts.OpenVSwitch, limit int64) Advice {
	flows, read := mostFlows(o)
	if !read {
		return Unsure("how many flows there are was not read")
	}
	used := fmt.Sprintf("%d of %d flows are in use", flows, limit)
	switch {
	case float64(flows) < 0.9*float64(limit):
		return Fine(used + "; ovs-vswitchd lowers the limit by itself while revalidation is slow")
	case limit >= maxFlows:
		return Fine(fmt.Sprintf("%s, but %d is as far as mpps raises it: rules that match fewer fields", used,
			maxFlows))
	}
	severity := Medium
	if v.Interval != nil && v.lostUpcalls() > 0 {
		severity = High
		used += fmt.Sprintf(", and %d upcalls were lost %s", v.lostUpcalls(), v.overInterval())
	}
	return Wants(setting.Least(min(max(2*limit, flowLimit), maxFlows)), used+": no other is added, and each packet of "+
		"the rest is an upcall").At(severity)
})

// mostFlows returns the flows of the fullest datapath; false if none was read.
func mostFlows(o *facts.OpenVSwitch) (flows uint64, read bool) {
	for _, d := range o.Datapaths {
		flows = max(flows, d.Flows)
	}
	return flows, len(o.Datapaths) > 0
}

// manyUpcalls is the share of packets without a flow from which on they are named though none is lost, an estimate: for
// each of them a thread of ovs-vswitchd wakes, walks the OpenFlow tables and writes a flow to the datapath.
const manyUpcalls = 0.05

var ovsMaxIdle = ovsSetting{
	name: "max_idle", key: "max-idle", title: "Flows stay while their packets come", otherwise: maxIdle,
	risk: goal.None,
	sets: true,
}.knob(func(v *View, o *facts.OpenVSwitch, idle int64) Advice {
	if idle >= maxIdle {
		return Fine("not shorter than the default")
	}
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	all, missed := v.switched()
	share, lost := float64(missed)/float64(max(all, 1)), v.lostUpcalls()
	flows, read := mostFlows(o)
	limit, err := strconv.ParseFloat(cmp.Or(o.Config["flow-limit"], strconv.Itoa(flowLimit)), 64)
	need := float64(flows) * maxIdle / float64(max(idle, 1)) // as flows stay so much longer, at most
	switch {
	case lost == 0 && share < manyUpcalls:
		return Fine("few packets had no flow " + v.overInterval())
	case !read || err != nil:
		return Unsure("how many flows there are, or may be, was not read")
	case need > 0.9*limit:
		return Fine(fmt.Sprintf("%d flows would become up to %.0f with the default, and flow-limit is %.0f", flows,
			need, limit))
	}
	because := fmt.Sprintf("%.2g %% of the packets had no flow %s", 100*share, v.overInterval())
	severity := Low
	if lost > 0 {
		because += fmt.Sprintf(", and %d of these were lost", lost)
		severity = Medium
	}
	return Wants(setting.Least(maxIdle), because+", and flows are thrown out sooner than by default").At(severity)
})
