package facts

import "slices"

// Boot is the boot loader's configuration, nil if none was found.
type Boot struct {
	Loader  string      `json:"loader"`  // grub, grub-bls or systemd-boot
	Files   []string    `json:"files"`   // that were read
	Entries []BootEntry `json:"entries"` // of Linux kernels, in menu order
	Next    string      `json:"next"`    // ID of the entry that boots next, empty if unknown
	Why     string      `json:"why,omitempty"`
	// how arguments are changed: "/etc/default/grub.d", "grubby", "loader entries"
	Writer string `json:"writer,omitempty"`
	Frozen string `json:"read_only,omitempty"` // why they cannot be changed here, empty if they can
	// Modules is the status of each argument MODULE.PARAMETER on the running and the next command line.
	Modules map[string]ModuleArgument `json:"modules,omitempty"`
}

// BootEntry is one kernel of the boot menu.
type BootEntry struct {
	ID        string `json:"id"`
	Title     string `json:"title,omitempty"`
	Version   string `json:"version,omitempty"` // kernel release, as in uname -r
	Linux     string `json:"linux"`             // the kernel's file, in the boot loader's spelling
	Arguments string `json:"arguments"`         // as the kernel will get them, boot loader variables expanded
	Recovery  bool   `json:"recovery,omitempty"`
}

// ModuleArgument is the status of a module parameter in the running kernel.
type ModuleArgument string

// Status of an argument MODULE.PARAMETER.
const (
	// /sys/module/MODULE/parameters/PARAMETER exists, or modinfo lists it
	ParameterKnown   ModuleArgument = "known"
	ParameterMissing ModuleArgument = "no such parameter"    // the module exists and has others
	ModuleNotLoaded  ModuleArgument = "module not loaded"    // unknown
	ModuleSilent     ModuleArgument = "parameters not shown" // the module exists and shows none
)

// Entry returns the entry with an ID, and whether there is one.
func (b *Boot) Entry(id string) (BootEntry, bool) {
	if b == nil {
		return BootEntry{}, false
	}
	return first(b.Entries, func(e BootEntry) bool { return e.ID == id })
}

// first returns the first element for which is holds, and whether there is one.
func first[T any](all []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return found, false
}

// NextEntry returns the entry that boots next, and whether it is known.
func (b *Boot) NextEntry() (BootEntry, bool) {
	if b == nil || b.Next == "" {
		return BootEntry{}, false
	}
	return b.Entry(b.Next)
}

// System is the host's distribution.
type System struct {
	ID      string   `json:"id"`      // os-release: debian, rhel, centos, ol, ubuntu …
	Like    []string `json:"like"`    // os-release: ID_LIKE
	Version string   `json:"version"` // os-release: VERSION_ID
}
