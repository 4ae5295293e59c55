// Package export turns a goal into a TuneD profile. The profile includes one of TuneD's own and adds only what that one
// lacks. Values that TuneD cannot set are listed with the command that does. The package is pure.
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

// The profiles of TuneD to include.
const (
	realtimeBase = "realtime-virtual-host"
	bulkBase     = "network-throughput"
	hostBase     = "virtual-host"
)

// base returns the profile of TuneD to include for a goal.
func base(g goal.Goal) string {
	switch {
	case g.Tier() == goal.Realtime:
		return realtimeBase
	case g.Bulk > 0 && g.PPS == 0:
		return bulkBase
	}
	return hostBase
}

// Profile is a TuneD profile for a goal.
type Profile struct {
	Name string `json:"name"`
	Base string `json:"base"` // the included profile
	// Assumed reports that the files of Base could not be read: the profile is based on what versions 2.20 to 2.25 of
	// it have in common.
	Assumed bool   `json:"assumed"`
	Files   []File `json:"files"` // in a directory named after the profile
	Written string `json:"written,omitempty"`
	Held    []Held `json:"held"`     // set by this profile
	ByBase  []Held `json:"by_base"`  // set by the included profile
	NotHeld []Left `json:"not_held"` // not set by TuneD
	// Twice are kernel arguments that the boot loader's own files have too: with the profile the kernel would get them
	// twice.
	Twice []string `json:"twice,omitempty"`
}

// File is one file of a profile.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Held is a value that TuneD sets.
type Held struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Value   string          `json:"value"`
	Option  string          `json:"option"`            // section and option: "sysctl.vm.stat_interval"
	Instead string          `json:"instead,omitempty"` // the value of the included profile that it replaces
	Because string          `json:"because,omitempty"`
}

// Left is a value that TuneD cannot set.
type Left struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Wanted  string          `json:"wanted"`
	Why     string          `json:"why"`
	Command string          `json:"command"` // sets it
}

// Request is the input of Make.
type Request struct {
	Name    string
	Flags   string // of the goal, as given by the user
	Version string
	Host    *facts.Host
	Report  audit.Report
	Files   tuned.Files // of the host; nil for a snapshot
	Machine tuned.Machine
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$`)

// CheckName refuses names that TuneD would not load (tuned/profiles/loader.py, safe_name) and those of its own
// profiles.
func CheckName(name string) error {
	if !validName.MatchString(name) || len(name) > 64 {
		return fmt.Errorf("profile name %q: expected letters, digits, dots, dashes and underscores", name)
	}
	if slices.Contains([]string{realtimeBase, bulkBase, hostBase}, name) {
		return fmt.Errorf("profile name %q is that of a profile of TuneD", name)
	}
	return nil
}

// ErrNoCPUs is returned by Make for a realtime goal on a host with no CPUs to isolate.
var ErrNoCPUs = errors.New("the guests' CPUs are not known")

// Make returns the profile for a goal.
func Make(r Request) (*Profile, error) {
	if err := CheckName(r.Name); err != nil {
		return nil, err
	}
	b := &builder{Request: r, profile: &Profile{Name: r.Name, Base: base(r.Report.Goal), Held: []Held{},
		ByBase: []Held{}, NotHeld: []Left{}}}
	if b.profile.Base == realtimeBase {
		if b.cores = b.isolatedCPUs(); len(b.cores) == 0 {
			return nil, ErrNoCPUs
		}
	}
	b.variables()
	b.base = b.resolve()
	if slices.Contains(b.base.Missing, b.profile.Base) {
		b.profile.Assumed = true
		b.Files = builtinProfile
		b.base = b.resolve()
	}
	b.exemptQEMU()
	for _, f := range r.Report.Findings {
		b.add(f)
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
	vars     []string       // lines of variables.conf
	base     *facts.Tuned   // what the included profile sets with these variables
	sections []*section
}

// isolatedCPUs returns the CPUs that the goal isolates, taken from the finding about isolcpus.
func (b *builder) isolatedCPUs() setting.CPUSet {
	for _, f := range b.Report.Findings {
		if f.Address != setting.Of(setting.KernelArg, "isolcpus") {
			continue
		}
		value, _ := wantedValue(f)
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

// wantedValue returns the value that a profile should set for a finding: the current one if it is good, otherwise the
// wanted one. Without a wish a good value only counts if it belongs to the whole host: a driver's default is no wish.
func wantedValue(f audit.Finding) (value string, ok bool) {
	good := f.State == audit.OK && f.Reading.State == setting.Known
	switch {
	case f.Want == nil:
		return f.Reading.Value, good &&
			slices.Contains([]setting.Kind{setting.KernelArg, setting.Sysctl, setting.SysfsCPUs, setting.ThreadSched,
				setting.KSM}, f.Address.Kind)
	case f.State == audit.Unknown && f.Address.Kind != setting.KernelArg, f.State == audit.NotApplicable,
		f.Want.Op == setting.Gone:
		return "", false
	case good:
		return f.Reading.Value, true
	}
	return f.Want.Value, true
}

// variables sets the variables that the included realtime profile expects.
func (b *builder) variables() {
	if b.profile.Base != realtimeBase {
		return
	}
	b.vars = []string{"isolated_cores=" + b.cores.String(), "isolate_managed_irq=Y"}
	for _, f := range b.Report.Findings {
		if f.Address.Kind == setting.NICChannels && f.Address.Rest() == "combined" {
			if value, ok := wantedValue(f); ok && value != "" {
				b.vars = append(b.vars, "netdev_queue_count="+value)
				return
			}
		}
	}
}

// resolve returns what the included profile sets, with the variables of this one.
func (b *builder) resolve() *facts.Tuned {
	folder := path.Join(tuned.Folders[0], b.Name)
	own := map[string]string{
		folder + "/tuned.conf":     "[main]\ninclude=" + b.profile.Base + "\n" + variablesSection(b.vars),
		folder + "/variables.conf": variablesText(b.vars),
	}
	return tuned.Resolve(func(name string) (string, bool) {
		if text, ok := own[name]; ok {
			return text, true
		}
		// Without the host's profile_dirs, which may leave out our folder.
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
		"profile's own file\n# of variables, which is not read.\n" + strings.Join(vars, "\n") + "\n"
}
