package domain

import (
	"strconv"
	"strings"
)

// cpuCache is what the guest is told of caches. The host's own only make sense with the host's CPU, and without a level
// (src/qemu/qemu_validate.c, qemuValidateDomainDefCpu).
var cpuCache = wordKind("", "passthrough", "emulate", "disable").where(func(v string, _ *element, d *Doc) *ValueError {
	if v != "passthrough" {
		return nil
	}
	cpu := d.root.first("cpu")
	if mode := cpu.get(d, "mode"); mode != "host-passthrough" && mode != "maximum" {
		return refuse("emulate or disable with CPU mode "+strconv.Quote(clip(mode)), "passthrough needs the CPU mode "+
			"host-passthrough: set it first")
	}
	if cpu.first("cache").attr("level") != nil {
		return refuse("emulate for a single level", "libvirt refuses passthrough with a level: remove the level first")
	}
	return nil
})

// migratableFits refuses it beside a processor that is not the host's own, as libvirt does.
func migratableFits(_ string, _ *element, d *Doc) *ValueError {
	if mode := d.root.first("cpu").get(d, "mode"); !ofHost(mode) {
		return refuse("nothing with CPU mode "+strconv.Quote(clip(mode)), "it is for host-passthrough and maximum: "+
			"set the mode first")
	}
	return nil
}

// hypervMode is whether the guest is told of the enlightenments that stand below, or of all that the host has: then
// none may stand there.
var hypervMode = wordKind("", "custom", "passthrough").where(func(v string, _ *element, d *Doc) *ValueError {
	if named := d.root.first("features", "hyperv").elements(); v == "passthrough" && len(named) > 0 {
		return refuse("custom beside enlightenments that are named ("+clip(named[0].name)+")",
			"take them away first: unset features/hyperv/"+clip(named[0].name)+".state")
	}
	return nil
})

// hypervState is on or off; two enlightenments are nothing without a value of their own.
var hypervState = onOff.where(func(v string, on *element, d *Doc) *ValueError {
	if v != "on" || on == nil {
		return nil
	}
	for name, attr := range map[string]string{"spinlocks": "retries", "vendor_id": "value"} {
		if on.name == name && on.attr(attr) == nil {
			return refuse("off", "set features/hyperv/"+name+"."+attr+", which switches it on")
		}
	}
	return nil
})

// spinRetries: libvirt refuses less than 4095 (src/conf/domain_conf.c, virDomainFeaturesHyperVDefParse).
var spinRetries = kind{allowed: "4095 or more", canon: canonInt, wanted: func(v string) *ValueError {
	if n, _ := strconv.Atoi(v); n < 4095 {
		return refuse("4095 or more", "8191 is what Hyper-V guests are usually given")
	}
	return nil
}}

// vendorID: VIR_DOMAIN_HYPERV_VENDOR_ID_MAX is 12, and commas would end QEMU's argument.
var vendorID = kind{allowed: "1 to 12 characters without commas", canon: canonWord, wanted: func(v string) *ValueError {
	if len(v) > 12 || strings.Contains(v, ",") {
		return refuse("1 to 12 characters without commas", "")
	}
	return nil
}}

// notAuto refuses nodes where numad chooses them: libvirt drops them silently (src/conf/numa_conf.c,
// virDomainNumatuneSet).
func notAuto(_ string, _ *element, d *Doc) *ValueError {
	if d.root.first("numatune", "memory").get(d, "placement") == "auto" {
		return refuse("nothing beside placement='auto', which leaves the nodes to numad",
			"unset numatune/memory.placement as well")
	}
	return nil
}

// placementFits refuses the other way round, and static without nodes, which libvirt refuses.
func placementFits(v string, _ *element, d *Doc) *ValueError {
	switch has := d.root.first("numatune", "memory").attr("nodeset") != nil; {
	case v == "auto" && has:
		return refuse("static beside a nodeset", "unset numatune/memory.nodeset as well")
	case v == "static" && !has:
		return refuse("auto without a nodeset", "set numatune/memory.nodeset, which makes it static")
	}
	return nil
}

// switchedOn is an option of an enlightenment. libvirt does not keep one that is off.
var switchedOn = kind{allowed: "on", canon: canonWord, wanted: func(v string) *ValueError {
	if v != "on" {
		return refuse("on", "to switch it off, take it away (unset)")
	}
	return nil
}}

// besideNodes refuses a mode of memory that names no nodes, unless numad chooses them: libvirt refuses it too.
func besideNodes(_ string, _ *element, d *Doc) *ValueError {
	m := d.root.first("numatune", "memory")
	if m.attr("nodeset") == nil && m.get(d, "placement") != "auto" {
		return refuse("nothing without nodes", "set numatune/memory to MODE:NODES")
	}
	return nil
}

// hasNodes refuses the mode of a guest cell's memory that names no nodes: libvirt's schema wants both.
func hasNodes(_ string, memnode *element, _ *Doc) *ValueError {
	if memnode.attr("nodeset") == nil {
		return refuse("nothing without nodes", "set the nodeset first")
	}
	return nil
}

// where adds what a document must be for the values of a kind.
func (k kind) where(suits func(v string, on *element, d *Doc) *ValueError) kind {
	k.suits = suits
	return k
}
