// Package export writes what of a goal TuneD can hold as a profile of TuneD, which includes one of TuneD's own and says
// only what that does not. What TuneD has no way to hold is listed with what sets it. The package is pure.
package export

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// The profiles of TuneD that are extended.
const (
	RealtimeBase = "realtime-virtual-host"
	BulkBase     = "network-throughput"
	HostBase     = "virtual-host"
)

// Base is the profile that one for a goal includes.
func Base(g goal.Goal) string {
	switch {
	case g.Tier() == goal.Realtime:
		return RealtimeBase
	case g.Bulk > 0 && g.PPS == 0:
		return BulkBase
	}
	return HostBase
}

// Profile is a profile for a goal.
type Profile struct {
	Name string `json:"name"`
	Base string `json:"base"` // the profile that it includes
	// the base's files were not there to be read: what its versions 2.20 to 2.25 have in common counts
	Assumed bool   `json:"assumed"`
	Files   []File `json:"files"` // below a directory of the profile's name
	Written string `json:"written,omitempty"`
	Held    []Held `json:"held"`    // by this profile
	ByBase  []Held `json:"by_base"` // by the profile that it includes
	NotHeld []Left `json:"not_held"`
	// Twice are kernel arguments that the boot loader's own files give too: with the profile the kernel would get them
	// twice.
	Twice []string `json:"twice,omitempty"`
}

// File is one file of a profile.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Held is a value that TuneD holds.
type Held struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Value   string          `json:"value"`
	Option  string          `json:"option"`            // section and option: "sysctl.vm.stat_interval"
	Instead string          `json:"instead,omitempty"` // of what the included profile gives
	Because string          `json:"because,omitempty"`
}

// Left is a value that TuneD cannot hold.
type Left struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Wanted  string          `json:"wanted"`
	Why     string          `json:"why"`
	Command string          `json:"command"` // that sets it
}

// Request is what a profile is made from.
type Request struct {
	Name    string
	Flags   string // of the goal, as the user gave them
	Version string
	Host    *facts.Host
	Report  audit.Report
	Files   tuned.Files // of the host; nil for a snapshot
	Machine tuned.Machine
}

var goodName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$`)

// CheckName refuses what TuneD would not load (tuned/profiles/loader.py, safe_name).
func CheckName(name string) error {
	if !goodName.MatchString(name) || len(name) > 64 {
		return fmt.Errorf("profile name %q: expected letters, digits, dots, dashes and underscores", name)
	}
	if slices.Contains([]string{RealtimeBase, BulkBase, HostBase}, name) {
		return fmt.Errorf("profile name %q is that of a profile of TuneD", name)
	}
	return nil
}

// ErrNoCPUs says that a realtime profile has nothing to isolate.
var ErrNoCPUs = errors.New("the guests' CPUs are not known")

// Make makes a profile.
func Make(r Request) (*Profile, error) {
	if err := CheckName(r.Name); err != nil {
		return nil, err
	}
	b := &builder{Request: r, profile: &Profile{Name: r.Name, Base: Base(r.Report.Goal), Held: []Held{},
		ByBase: []Held{}, NotHeld: []Left{}}}
	if b.profile.Base == RealtimeBase {
		if b.cores = b.isolated(); len(b.cores) == 0 {
			return nil, ErrNoCPUs
		}
	}
	b.variables()
	b.base = b.resolve("")
	if slices.Contains(b.base.Missing, b.profile.Base) {
		b.profile.Assumed = true
		b.Files = assumed
		b.base = b.resolve("")
	}
	b.spare()
	for _, f := range r.Report.Findings {
		b.take(f)
	}
	b.profile.Files = []File{{"tuned.conf", b.text()}}
	if len(b.vars) > 0 {
		b.profile.Files = append(b.profile.Files, File{"variables.conf", variablesText(b.vars)})
	}
	return b.profile, nil
}

type builder struct {
	Request
	profile  *Profile
	cores    setting.CPUSet // isolated
	vars     []string       // lines of the file of variables
	base     *facts.Tuned   // what the included profile sets with these variables
	sections []*section
}

// isolated are the CPUs that the goal isolates: those of the kernel argument.
func (b *builder) isolated() setting.CPUSet {
	for _, f := range b.Report.Findings {
		if f.Address != setting.Of(setting.KernelArg, "isolcpus") {
			continue
		}
		value, _ := wanted(f)
		parts := strings.Split(value, ",")
		for len(parts) > 0 && slices.Contains([]string{"nohz", "domain", "managed_irq"}, parts[0]) {
			parts = parts[1:]
		}
		if set, err := setting.ParseCPUs(strings.Join(parts, ",")); err == nil {
			return set
		}
	}
	return nil
}

// wanted is the value that a finding is to have: what stands there where that is good, what is wanted otherwise. Of
// values that are good as they are those of the whole host count, for what a driver chose is not a wish.
func wanted(f audit.Finding) (value string, is bool) {
	stands := f.State == audit.OK && f.Reading.State == setting.Known
	switch {
	case f.Want == nil:
		return f.Reading.Value, stands &&
			slices.Contains([]setting.Kind{setting.KernelArg, setting.Sysctl, setting.SysfsCPUs, setting.ThreadSched,
				setting.KSM}, f.Address.Kind)
	case f.State == audit.Unknown && f.Address.Kind != setting.KernelArg, f.State == audit.NotApplicable,
		f.Want.Op == setting.Gone:
		return "", false
	case stands:
		return f.Reading.Value, true
	}
	return f.Want.Value, true
}

// variables are what the included profile asks for.
func (b *builder) variables() {
	if b.profile.Base != RealtimeBase {
		return
	}
	b.vars = []string{"isolated_cores=" + b.cores.String(), "isolate_managed_irq=Y"}
	count := ""
	for _, f := range b.Report.Findings {
		if f.Address.Kind == setting.NICChannels && f.Address.Rest() == "combined" {
			if value, is := wanted(f); is && count == "" {
				count = value
			}
		}
	}
	if count != "" {
		b.vars = append(b.vars, "netdev_queue_count="+count)
	}
}

// resolve is what the profile would set with a text added to it.
func (b *builder) resolve(more string) *facts.Tuned {
	folder := path.Join(tuned.Folders[0], b.Name)
	own := map[string]string{
		folder + "/tuned.conf":     "[main]\ninclude=" + b.profile.Base + "\n" + variablesSection(b.vars) + more,
		folder + "/variables.conf": variablesText(b.vars),
	}
	return tuned.Resolve(func(name string) (string, bool) {
		if text, is := own[name]; is {
			return text, true
		}
		// our own folder must be among those that are looked into
		if b.Files == nil || name == "etc/tuned/tuned-main.conf" {
			return "", false
		}
		return b.Files(name)
	}, b.Machine, b.Name)
}

func variablesSection(vars []string) string {
	if len(vars) == 0 {
		return ""
	}
	return "[variables]\ninclude=${i:PROFILE_DIR}/variables.conf\n"
}

func variablesText(vars []string) string {
	return "# Written by mpps: variables of the profile that tuned.conf includes. They stand in the place of that " +
		"profile's own file\n" +
		"# of variables, which is not read.\n" + strings.Join(vars, "\n") + "\n"
}
