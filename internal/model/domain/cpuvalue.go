package domain

import (
	"strconv"
	"strings"
)

// cpuCache is the cache information that the guest sees. The host's own requires the host's CPU, and no level
// (src/qemu/qemu_validate.c, qemuValidateDomainDefCpu).
var cpuCache = wordKind("", "passthrough", "emulate", "disable").where(func(v string, _ *element, d *Doc) *ValueError {
	if v != "passthrough" {
		return nil
	}
	cpu := d.root.first("cpu")
	if mode := cpu.get("mode"); mode != "host-passthrough" && mode != "maximum" {
		return refuse("emulate or disable with CPU mode "+strconv.Quote(clip(mode)), "passthrough needs the CPU mode "+
			"host-passthrough: set it first")
	}
	if cpu.first("cache").attr("level") != nil {
		return refuse("emulate for a single level", "libvirt refuses passthrough with a level: remove the level first")
	}
	return nil
})

// checkMigratable refuses migratable unless the guest has the host's own CPU, as libvirt does.
func checkMigratable(_ string, _ *element, d *Doc) *ValueError {
	if mode := d.root.first("cpu").get("mode"); !ofHost(mode) {
		return refuse("nothing with CPU mode "+strconv.Quote(clip(mode)), "it is for host-passthrough and maximum: "+
			"set the mode first")
	}
	return nil
}

// hypervMode is custom if the guest sees the listed enlightenments, passthrough if it sees all that the host has.
// libvirt accepts no list with passthrough.
var hypervMode = wordKind("", "custom", "passthrough").where(func(v string, _ *element, d *Doc) *ValueError {
	if named := d.root.first("features", "hyperv").elements(); v == "passthrough" && len(named) > 0 {
		return refuse("custom beside enlightenments that are named ("+clip(named[0].name)+")",
			"take them away first: unset features/hyperv/"+clip(named[0].name)+".state")
	}
	return nil
})

// hypervState is on or off. Two enlightenments also need a value.
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
var spinRetries = kind{allowed: "4095 or more", canon: canonInt, valid: func(v string) *ValueError {
	if n, _ := strconv.Atoi(v); n < 4095 {
		return refuse("4095 or more", "8191 is what Hyper-V guests are usually given")
	}
	return nil
}}

// vendorID: VIR_DOMAIN_HYPERV_VENDOR_ID_MAX is 12, and commas would end QEMU's argument.
var vendorID = kind{allowed: "1 to 12 characters without commas", canon: canonWord, valid: func(v string) *ValueError {
	if len(v) > 12 || strings.Contains(v, ",") {
		return refuse("1 to 12 characters without commas", "")
	}
	return nil
}}

// refuseWithAuto refuses nodes if numad chooses them: libvirt drops the nodes silently (src/conf/numa_conf.c,
// virDomainNumatuneSet).
func refuseWithAuto(_ string, _ *element, d *Doc) *ValueError {
	if d.root.first("numatune", "memory").get("placement") == "auto" {
		return refuse("nothing beside placement='auto', which leaves the nodes to numad",
			"unset numatune/memory.placement as well")
	}
	return nil
}

// checkPlacement refuses auto with nodes, and static without nodes, which libvirt refuses.
func checkPlacement(v string, _ *element, d *Doc) *ValueError {
	switch has := d.root.first("numatune", "memory").attr("nodeset") != nil; {
	case v == "auto" && has:
		return refuse("static beside a nodeset", "unset numatune/memory.nodeset as well")
	case v == "static" && !has:
		return refuse("auto without a nodeset", "set numatune/memory.nodeset, which makes it static")
	}
	return nil
}

// switchedOn is an option of an enlightenment. libvirt does not store one that is off.
var switchedOn = wordKind("to switch it off, take it away (unset)", "on")

// requireNodes refuses a memory mode without nodes unless numad chooses them, as libvirt does.
func requireNodes(_ string, _ *element, d *Doc) *ValueError {
	m := d.root.first("numatune", "memory")
	if m.attr("nodeset") == nil && m.get("placement") != "auto" {
		return refuse("nothing without nodes", "set numatune/memory to MODE:NODES")
	}
	return nil
}

// requireNodeset refuses a mode for a guest cell without nodes: libvirt's schema requires both.
func requireNodeset(_ string, memnode *element, _ *Doc) *ValueError {
	if memnode.attr("nodeset") == nil {
		return refuse("nothing without nodes", "set the nodeset first")
	}
	return nil
}

// where returns the kind with a check against the document.
func (k kind) where(validIn func(v string, on *element, d *Doc) *ValueError) kind {
	k.validIn = validIn
	return k
}

// check returns the canonical form of a value. It refuses values that no document may have; a restored value must only
// be readable.
func (k *kind) check(path, value string, restored bool) (string, error) {
	v, ok := k.canon(value)
	if !ok {
		return "", &ValueError{Path: path, Found: value, Allowed: k.allowed}
	}
	if k.valid != nil && !restored {
		if bad := k.valid(v); bad != nil {
			bad.Path, bad.Found = path, value
			return "", bad
		}
	}
	return v, nil
}
