package domain

import "fmt"

// checkKey refuses keys that libvirt would refuse or ignore.
func (d *Doc) checkKey(p *place) error {
	s := p.rule.last()
	vcpus, known := atoi(d.root.first("vcpu").text())
	switch {
	case s.name == "vcpupin" && known:
		if n, _ := atoi(p.key); n >= vcpus {
			// libvirt only warns and drops it: src/conf/domain_conf.c, virDomainVcpuPinDefParseXML.
			return &PathError{Path: p.path, Problem: fmt.Sprintf("found vCPU %d, expected 0 to %d", n, vcpus-1),
				Advice: "libvirt would drop the pin silently"}
		}
	case s.name == "memnode":
		// src/conf/numa_conf.c, virDomainNumatuneNodeParseXML.
		n, _ := atoi(p.key)
		if cells := len(d.root.first("cpu", "numa").all("cell")); n >= cells {
			return &PathError{Path: p.path, Problem: fmt.Sprintf("found cell %d, the guest has %d", n, cells),
				Advice: "give it NUMA cells of its own first: cpu/numa/cells"}
		}
	case s.name == "iothreadpin":
		n, _ := atoi(p.key)
		return d.checkIOThreads(p, []int{n})
	case s.key == bySet:
		mine, _ := ParseSet(p.key)
		if s.name == "iothreadsched" {
			if err := d.checkIOThreads(p, mine); err != nil {
				return err
			}
		} else if known && mine[len(mine)-1] >= vcpus {
			return &PathError{Path: p.path, Problem: fmt.Sprintf("found vCPU %d, expected 0 to %d", mine[len(mine)-1],
				vcpus-1)}
		}
		table := d.byKey(d.root.first("cputune"), s)
		for _, n := range mine {
			if other := table.member[n]; other != "" && other != p.key {
				return &PathError{Path: p.path, Problem: s.attr + " " + other + " have a scheduler together",
					Advice: fmt.Sprintf("set %s/%s, or delete it first", s.name, other)}
			}
		}
	}
	return nil
}

// checkIOThreads refuses I/O threads that the domain does not have, as libvirt does (src/conf/domain_conf.c,
// virDomainIOThreadPinDefParseXML). They are numbered from 1 unless <iothreadids> names them.
func (d *Doc) checkIOThreads(p *place, wanted []int) error {
	ids := map[int]bool{}
	for _, e := range d.root.first("iothreadids").all("iothread") {
		if n, ok := atoi(e.get("id")); ok {
			ids[n] = true
		}
	}
	count, _ := atoi(d.root.first("iothreads").text())
	for n := 1; len(ids) < min(count, maxCPU); n++ {
		ids[n] = true
	}
	for _, n := range wanted {
		switch {
		case n == 0:
			return &PathError{Path: p.path, Problem: "found I/O thread 0, expected 1 or above",
				Advice: "libvirt counts I/O threads from 1"}
		case !ids[n]:
			return &PathError{Path: p.path, Problem: fmt.Sprintf("the domain has no I/O thread %d, it has %d", n,
				len(ids)),
				Advice: "<iothreads>N</iothreads> gives it N"}
		}
	}
	return nil
}
