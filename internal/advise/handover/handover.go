// Package handover translates values of a guest whose definition a platform regenerates into that platform's own
// settings: data and pure code. Values that a platform has no setting for are listed with the reason; for platforms
// that are not known here, plain values are.
package handover

import (
	"cmp"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Sheet is what to set for one guest.
type Sheet struct {
	Guest    string         `json:"guest"`
	Platform facts.Platform `json:"platform"`
	ID       string         `json:"platform_id,omitempty"` // what the platform calls the guest
	Effect   string         `json:"takes_effect"`          // when it takes effect, for people
	Words    []Word         `json:"words"`
	Unsaid   []Unsaid       `json:"cannot_be_said"`
	Plain    []Plain        `json:"plain"` // values whose words are not known here
}

// Word is something that is said to the platform.
type Word struct {
	Where    string   `json:"where"` // such as "flavor extra specs", "qm set"
	Text     string   `json:"text"`  // as the platform takes it
	Settings []string `json:"settings"`
	Why      string   `json:"why"`    // of the first of the settings
	Source   string   `json:"source"` // where the platform documents or reads it
	Note     string   `json:"note,omitempty"`
}

// Unsaid is a value that a platform has no word for.
type Unsaid struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	Why     string `json:"why"`
}

// Plain is a value without words.
type Plain struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	Why     string `json:"why"`
}

// said is a platform's setting for one value; the zero value: it has none.
type said struct {
	where, text, source, note string
	needs                     []string // texts in the same place, without which the platform refuses this one
	unsaid                    string   // why there is no setting
}

// platform translates values for one platform.
type platform struct {
	say    func(g *facts.Guest, h plan.Handed) said
	join   func(g *facts.Guest, where string, texts []string) string // joins several texts of one place
	effect string
	always []Unsaid // values that it never has a setting for
}

// noVhost is for platforms without a setting for the CPUs of vhost threads.
var noVhost = Unsaid{Setting: "vhost threads", Value: "dedicated CPUs", Why: noWord}

const noWord = "it has no word for it"

var platforms = map[facts.Platform]platform{
	facts.Nova:       nova,
	facts.Proxmox:    proxmox,
	facts.KubeVirt:   kubevirt,
	facts.Harvester:  kubevirt,
	facts.CloudStack: cloudStack,
	facts.OpenNebula: openNebula,
	facts.Incus:      instance("incus"),
	facts.LXD:        instance("lxc"),
}

// Of returns the sheets of a host's guests, sorted by name; of one guest unless its name is empty.
func Of(h *facts.Host, handed []plan.Handed, guest string) []Sheet {
	sheets := []Sheet{}
	for i := range h.Guests {
		g := &h.Guests[i]
		if !g.Rewrites() || guest != "" && g.Name != guest {
			continue
		}
		mine := facts.Where(handed, func(h plan.Handed) bool { return h.Guest == g.Name })
		if len(mine) > 0 || guest != "" {
			sheets = append(sheets, sheet(g, mine))
		}
	}
	slices.SortFunc(sheets, func(a, b Sheet) int { return strings.Compare(a.Guest, b.Guest) })
	return sheets
}

// sheet returns what to set for a guest.
func sheet(g *facts.Guest, handed []plan.Handed) Sheet {
	p, known := platforms[g.Platform()]
	s := Sheet{Guest: g.Name, Platform: g.Platform(), ID: g.Owner.ID, Words: []Word{}, Unsaid: []Unsaid{},
		Plain: []Plain{}, Effect: cmp.Or(p.effect, "when "+g.Platform().Title()+" next starts the guest")}
	texts := map[string][]string{}
	for _, h := range handed {
		if !known {
			s.Plain = append(s.Plain, Plain{h.Setting, h.Value.String(), h.Why})
			continue
		}
		it := p.say(g, h)
		if it.text == "" {
			s.Unsaid = append(s.Unsaid, Unsaid{h.Setting, h.Value.String(), cmp.Or(it.unsaid, noWord)})
			continue
		}
		at := slices.IndexFunc(s.Words, func(w Word) bool { return w.Where == it.where })
		if at < 0 {
			at = len(s.Words)
			s.Words = append(s.Words, Word{Where: it.where, Why: h.Why, Source: it.source})
		}
		w := &s.Words[at]
		w.Settings = append(w.Settings, h.Setting)
		for _, text := range append(it.needs, it.text) {
			if !slices.Contains(texts[it.where], text) {
				texts[it.where] = append(texts[it.where], text)
			}
		}
		if it.note != "" && !strings.Contains(w.Note, it.note) {
			w.Note = strings.TrimPrefix(w.Note+"; "+it.note, "; ")
		}
	}
	for i := range s.Words {
		s.Words[i].Text = p.join(g, s.Words[i].Where, texts[s.Words[i].Where])
	}
	if len(handed) > 0 {
		s.Unsaid = append(s.Unsaid, p.always...)
	}
	return s
}

// ownCPUs reports whether each vCPU of a guest already has a CPU that the guest's other vCPUs may not use, whichever
// the platform has chosen.
func ownCPUs(g *facts.Guest) bool {
	seen := setting.CPUSet{}
	vcpus := vcpuPlaces(g)
	for _, cpus := range vcpus {
		if len(cpus) != 1 || seen.Has(cpus[0]) {
			return false
		}
		seen = seen.Or(cpus)
	}
	return len(vcpus) > 0
}

// vcpuPlaces returns the CPUs that each vCPU of a running guest may use; those of its definition if it does not run.
func vcpuPlaces(g *facts.Guest) (places []setting.CPUSet) {
	for _, t := range g.Threads {
		if t.Role == "vcpu" {
			places = append(places, t.Affinity)
		}
	}
	if len(places) == 0 {
		return g.Pins
	}
	return places
}
