package tune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"mpps/internal/strictjson"
)

// EffectsSchema names the format of learned effects and its version.
const EffectsSchema = "mpps.effects/1"

// Effects are the results of attempts by class of host. They only decide what to try first: every host measures what it
// keeps.
type Effects struct {
	Schema string   `json:"schema"`
	Known  []Effect `json:"effects"` // sorted by class, bottleneck, key
}

// Effect is what one candidate did on hosts of one class that had one bottleneck.
type Effect struct {
	Class      string  `json:"class"`      // what hosts have in common
	Bottleneck string  `json:"bottleneck"` // kind; empty: none was named
	Key        string  `json:"key"`        // of the candidate
	Tried      int     `json:"tried"`
	Kept       int     `json:"kept"`
	Hurt       int     `json:"hurt"`
	Log        float64 `json:"log_ratio"` // sum of ln(ratio) over those kept
}

// otherWeight is the weight of an effect seen on another class of hosts, or with another bottleneck; both: its square.
const otherWeight = 0.3

// lesson is what was learned about a candidate: weighted sums over its effects.
type lesson struct {
	weight, kept, log float64
	say               string
}

// lesson sums up the effects of a candidate for a class of hosts and the kind of a bottleneck.
func (e Effects) lesson(class, kind, key string) lesson {
	var l lesson
	var tried, kept int
	for _, k := range e.Known {
		if k.Key != key {
			continue
		}
		w := 1.0
		if k.Class != class {
			w *= otherWeight
		}
		if k.Bottleneck != kind {
			w *= otherWeight
		}
		tried, kept = tried+k.Tried, kept+k.Kept
		l.weight += w * float64(k.Tried)
		l.kept += w * float64(k.Kept)
		l.log += w * k.Log
	}
	if tried > 0 {
		l.say = fmt.Sprintf("learned: kept in %d of %d attempts", kept, tried)
		if l.kept > 0 {
			l.say += fmt.Sprintf(", ×%.2f there", math.Exp(l.log/l.kept))
		}
	}
	return l
}

// Learn returns the effects with those of a run on a host of a class added. Attempts that were cut short or refused
// add nothing. What was tried as a part of a group is learned from being measured on top of the others.
func (e Effects) Learn(class string, r *Result) Effects {
	tried := map[string]bool{}
	for i := range r.Attempts {
		tried[r.Attempts[i].Key] = true
		e = e.learnOne(class, &r.Attempts[i], true)
	}
	for i := range slices.Backward(r.Revisits) { // the last one of a part counts
		if a := &r.Revisits[i]; !tried[a.Key] {
			tried[a.Key] = true
			e = e.learnOne(class, a, a.Evidence >= a.Needed)
		}
	}
	return e
}

// learnOne returns the effects with that of one attempt added. What was tried as a group says little about each part
// and adds nothing. proven is false if it only does not cost.
func (e Effects) learnOne(class string, a *Attempt, proven bool) Effects {
	if len(a.Parts) > 0 {
		return e
	}
	one := Effect{Class: class, Bottleneck: a.Limit, Key: a.Key, Tried: 1}
	switch a.Outcome {
	case Kept:
		if a.Gain.Ratio <= 0 { // not measured
			return e
		}
		if proven {
			one.Kept, one.Log = 1, max(-maxLog, min(maxLog, math.Log(a.Gain.Ratio)))
		}
	case Hurts:
		one.Hurt = 1
	case Useless, NotShown:
	default:
		return e
	}
	return e.add(one)
}

// Import returns the effects with those of another file added.
func (e Effects) Import(other Effects) Effects {
	return e.add(other.Known...)
}

func (e Effects) add(more ...Effect) Effects {
	type place struct{ class, bottleneck, key string }
	all := map[place]Effect{}
	for _, k := range slices.Concat(e.Known, more) {
		p := place{k.Class, k.Bottleneck, k.Key}
		have := all[p]
		k.Tried, k.Kept, k.Hurt, k.Log = k.Tried+have.Tried, k.Kept+have.Kept, k.Hurt+have.Hurt, k.Log+have.Log
		all[p] = k
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b Effect) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Bottleneck, b.Bottleneck), cmp.Compare(a.Key, b.Key))
	})
	return Effects{Schema: EffectsSchema, Known: sorted}
}

// maxLog bounds ln(ratio) of one attempt: if nothing arrived before the change, the ratio is arbitrary.
const maxLog = 12.0

// maxTried is more attempts than any host has time for; the sums of many files are still numbers.
const maxTried = 1 << 31

// maxEffects is the largest accepted file of effects, in bytes.
const maxEffects = 16 << 20

// ReadEffects reads a file of effects. It refuses entries that no run can have produced.
func ReadEffects(r io.Reader) (Effects, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxEffects+1))
	if err != nil {
		return Effects{}, err
	}
	if len(text) > maxEffects {
		return Effects{}, fmt.Errorf("learned effects: larger than %d bytes", maxEffects)
	}
	var e Effects
	if err := strictjson.Unmarshal(text, &e); err != nil {
		return Effects{}, fmt.Errorf("learned effects: %w", err)
	}
	if e.Schema != EffectsSchema {
		return Effects{}, fmt.Errorf("learned effects: found schema %q, expected %q", e.Schema, EffectsSchema)
	}
	for i, k := range e.Known {
		if k.Key == "" || k.Tried < 1 || k.Tried > maxTried || k.Kept < 0 || k.Hurt < 0 || k.Kept > k.Tried-k.Hurt ||
			math.IsNaN(k.Log) || math.Abs(k.Log) > maxLog*float64(max(1, k.Kept)) {
			return Effects{}, fmt.Errorf("learned effects: entry %d (%q) says what no run can have found", i+1, k.Key)
		}
	}
	return e, nil
}

// Write writes a file of effects.
func (e Effects) Write(w io.Writer) error {
	e.Schema = EffectsSchema
	if e.Known == nil {
		e.Known = []Effect{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(e)
}
