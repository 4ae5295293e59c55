package cpu

import "fmt"

// kind is a kind of object that groups CPUs. The order is that of containment where two have the same CPUs.
type kind int

const (
	kindPackage kind = iota
	kindDie
	kindCache // the higher level outside
	kindCore
)

var kindNames = [...]string{kindPackage: "package", kindDie: "die", kindCache: "cache", kindCore: "core"}

// object is a package, die, cache or core as the set of its CPUs.
type object struct {
	kind  kind
	cpus  mask
	id    int    // the kernel's number, −1 where it tells none
	level int    // caches: 1 to 5
	data  string // caches: Data, Instruction or Unified
	size  uint64 // caches: bytes
}

func (o object) String() string {
	if o.kind == kindCache {
		return fmt.Sprintf("L%d cache of CPUs %s", o.level, o.cpus.set())
	}
	return fmt.Sprintf("%s %d of CPUs %s", kindNames[o.kind], o.id, o.cpus.set())
}

// same reports whether two objects are the same one told twice.
func (o object) same(other object) bool {
	return o.kind == other.kind && o.level == other.level && o.data == other.data
}

// outside reports whether an object stands outside another that has the same CPUs.
func (o object) outside(other object) bool {
	if o.kind != other.kind {
		return o.kind < other.kind
	}
	return o.level > other.level
}

// objects are a machine's objects. Any two either share no CPU or one holds the other: tables of firmware that say
// otherwise are broken, and of two objects that contradict each other the one that was told first stands, as in hwloc.
type objects struct {
	all   []object
	byCPU map[int][]int // CPU → indices in all of what holds it
}

func newObjects() *objects { return &objects{byCPU: map[int][]int{}} }

// insert adds an object unless it is there already, is empty, or contradicts one that is; the answer says which.
func (all *objects) insert(o object) (contradiction string) {
	if o.cpus.empty() {
		return ""
	}
	known := false
	o.cpus.members(func(cpu int) bool {
		for _, i := range all.byCPU[cpu] {
			other := all.all[i]
			inside, around := other.cpus.within(o.cpus), o.cpus.within(other.cpus)
			switch {
			case !inside && !around:
				contradiction = fmt.Sprintf("%v overlaps with %v: left out", o, other)
				return false
			case inside && around && other.same(o):
				known = true
				return false
			}
		}
		return true
	})
	if known || contradiction != "" {
		return contradiction
	}
	index := len(all.all)
	all.all = append(all.all, o)
	o.cpus.members(func(cpu int) bool { all.byCPU[cpu] = append(all.byCPU[cpu], index); return true })
	return ""
}

// count counts the objects that match and that a process sees which may use only some CPUs and nodes: those with a CPU
// that it may use, and those that hold a node that it may use although all their CPUs are denied to it.
func (all *objects) count(match func(object) bool, allowed mask, nodes []mask) int {
	n := 0
	for i, o := range all.all {
		if match(o) && (o.cpus.intersects(allowed) || all.holdsNode(i, nodes)) {
			n++
		}
	}
	return n
}

// holdsNode reports whether a node with CPUs belongs to an object: the object holds all of the node's CPUs, and no
// object outside it has the very same ones (a node is attached to the outermost of these).
func (all *objects) holdsNode(index int, nodes []mask) bool {
	o := all.all[index]
	for _, node := range nodes {
		if node.empty() || !node.within(o.cpus) {
			continue
		}
		if !o.cpus.within(node) {
			return true
		}
		outermost := true
		for _, i := range all.byCPU[o.cpus.first()] {
			if other := all.all[i]; other.outside(o) && other.cpus.equal(o.cpus) {
				outermost = false
			}
		}
		if outermost {
			return true
		}
	}
	return false
}
