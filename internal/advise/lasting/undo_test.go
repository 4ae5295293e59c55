package lasting

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestUndoInAnyOrder lets several applies write to the same files and takes them back in any order: what the others
// gave stays all the time, and nothing is left in the end.
func TestUndoInAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := host()
		type given struct {
			before, after map[setting.Address]setting.Reading
		}
		var applies []given
		for n := range 2 + random.IntN(4) {
			var changes []plan.Change
			for i := range 1 + random.IntN(3) { // no two applies give the same value
				changes = append(changes, change(fmt.Sprintf("sysctl:net.core.v%d%d", n, i), "1", "2"),
					change(fmt.Sprintf("nic-ring:eth%d%d/rx", n, i), "1", "2"),
					change(fmt.Sprintf("module-param:m%d/p%d", n, i), "1", "2"))
			}
			g := given{map[setting.Address]setting.Reading{}, map[setting.Address]setting.Reading{}}
			for _, c := range add(t, h, changes...).Changes {
				if Shared(c.Address) {
					g.before[c.Address], g.after[c.Address] = c.From, c.To
				}
				if MakesLast(c.ID) {
					h.Readings[c.Address] = c.To
				}
			}
			applies = append(applies, g)
		}
		for len(applies) > 0 {
			at := random.IntN(len(applies))
			g := applies[at]
			applies = append(applies[:at], applies[at+1:]...)
			for a, after := range g.after {
				must.Need(t, Holds(a, g.before[a], after, h.Readings[a]),
					"seed %d: %s does not hold what was given:\n%s", seed, a, h.Readings[a].Value)
				to, done := Undo(a, g.before[a], after, h.Readings[a])
				must.Need(t, done && !Holds(a, g.before[a], after, to), "seed %d: %s is %v after undoing", seed, a, to)
				h.Readings[a] = to
			}
			for _, other := range applies {
				for a, after := range other.after {
					must.Need(t, Holds(a, other.before[a], after, h.Readings[a]),
						"seed %d: %s lost what another gave:\n%s", seed, a, h.Readings[a].Value)
				}
			}
		}
		for _, a := range []setting.Address{sysctlAddress, moduleAddress, desiredAddress} {
			must.Need(t, h.Readings[a].State == setting.Absent,
				"seed %d: %s is left:\n%s", seed, a, h.Readings[a].Value)
		}
	}
}

func FuzzUndo(f *testing.F) {
	f.Add("", sysctlHeader+"a = 1\n", sysctlHeader+"a = 1\nb = 2\n")
	f.Add(sysctlHeader+"a = 1\n", sysctlHeader+"a = 2\n", "# Written by mpps\na = 2\na = 3")
	f.Fuzz(func(t *testing.T, before, after, found string) {
		for _, a := range []setting.Address{sysctlAddress, moduleAddress, desiredAddress} {
			to, done := Undo(a, setting.Value(before), setting.Value(after), setting.Value(found))
			if !done && to.Value != found {
				t.Error("changed though nothing was undone")
			}
		}
	})
}
