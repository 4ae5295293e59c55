package cpu

import "fmt"

// kind is a kind of object that groups CPUs. If two objects have the same CPUs, the lower kind contains the other.
type kind int

const (
	kindPackage kind = iota
	kindDie
	kindCache // a higher level contains a lower one
	kindCore
)

var kindNames = [...]string{kindPackage: "package", kindDie: "die", kindCache: "cache", kindCore: "core"}

// object is a package, die, cache or core as the set of its CPUs.
type object struct {
	kind  kind
	cpus  mask
	id    int    // the kernel's number, −1 if unknown
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

// same reports whether two objects with the same CPUs are the same object.
func (o object) same(other object) bool {
	return o.kind == other.kind && o.level == other.level && o.data == other.data
}

// contains reports whether an object contains another that has the same CPUs.
func (o object) contains(other object) bool {
	if o.kind != other.kind {
		return o.kind < other.kind
	}
	return o.level > other.level
}

// objects are a machine's objects. Any two are disjoint or one contains the other. Broken firmware tables can say
// otherwise: then the object that was read first is kept, as in hwloc.
type objects struct {
	all   []object
	byCPU map[int][]int // CPU → indices in all of the objects that contain it
}

func newObjects() *objects { return &objects{byCPU: map[int][]int{}} }

// insert adds an object unless it is empty or already there. If it overlaps another one it is left out, and insert
// returns a sentence that says so.
func (all *objects) insert(o object) (contradiction string) {
	for cpu := range o.cpus.members {
		for _, i := range all.byCPU[cpu] {
			other := all.all[i]
			inside, around := other.cpus.within(o.cpus), o.cpus.within(other.cpus)
			switch {
			case !inside && !around:
				return fmt.Sprintf("%v overlaps with %v: left out", o, other)
			case inside && around && other.same(o):
				return ""
			}
		}
	}
	for cpu := range o.cpus.members {
		all.byCPU[cpu] = append(all.byCPU[cpu], len(all.all))
	}
	if !o.cpus.empty() {
		all.all = append(all.all, o)
	}
	return ""
}

// count returns the number of matching objects that a process with limited CPUs and nodes sees: those with an allowed
// CPU, and those that hold an allowed node although all their CPUs are denied.
func (all *objects) count(match func(object) bool, allowed mask, nodes []mask) int {
	n := 0
	for i, o := range all.all {
		if match(o) && (o.cpus.intersects(allowed) || all.holdsNode(i, nodes)) {
			n++
		}
	}
	return n
}

// holdsNode reports whether one of the nodes with CPUs belongs to an object: the object has all of the node's CPUs, and
// if it has the same ones, it is the outermost object with them (a node is attached to that one).
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
			if other := all.all[i]; other.contains(o) && other.cpus.equal(o.cpus) {
				outermost = false
			}
		}
		if outermost {
			return true
		}
	}
	return false
}
