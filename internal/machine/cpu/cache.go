package cpu

import (
	"cmp"
	"slices"
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// addCaches adds the caches whose first CPU is cpu. A cache with an empty CPU set (ia64) serves its core.
func (p *processors) addCaches(cpu int, at *tree.Folder, core mask) {
	caches := at.Folder("cache")
	if caches == nil {
		return
	}
	defer caches.Close()
	for _, index := range caches.Numbers("index") {
		cache := caches.Folder("index" + strconv.Itoa(index))
		if cpus, known := maskOrList(cache, "shared_cpu_map", "shared_cpu_list"); known {
			if cpus.empty() {
				cpus = core
			}
			if cpus = cpus.and(p.known); cpus.first() == cpu {
				p.addCache(cache, cpus)
			}
		}
		cache.Close()
	}
}

func (p *processors) addCache(cache *tree.Folder, cpus mask) {
	o := object{kind: kindCache, cpus: cpus, id: cache.Number("id", -1), level: cache.Number("level", 0),
		data: "Unified"}
	if o.level < 1 || o.level > 5 {
		return
	}
	switch kind := cache.Line("type"); kind {
	case "Data", "Instruction":
		o.data = kind
	}
	o.size = sizeOf(cache, "size", 1<<10)
	p.insert(o)
}

// caches returns the caches by level, then by first CPU, data before instructions.
func (p *processors) caches() []facts.Cache {
	var list []facts.Cache
	for _, o := range p.objects.all {
		if o.kind == kindCache {
			list = append(list, facts.Cache{Level: o.level, Type: o.data, Size: o.size, CPUs: o.cpus.set()})
		}
	}
	slices.SortStableFunc(list, func(a, b facts.Cache) int {
		return cmp.Or(a.Level-b.Level, a.CPUs[0]-b.CPUs[0])
	})
	return list
}

// isL3 reports whether an object is an L3 data or unified cache.
func isL3(o object) bool { return o.kind == kindCache && o.level == 3 && o.data != "Instruction" }
