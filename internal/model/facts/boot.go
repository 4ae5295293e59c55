package facts

// Boot is what the boot loader's own files say, nil where none was found.
type Boot struct {
	Loader  string      `json:"loader"`  // grub, grub-bls or systemd-boot
	Files   []string    `json:"files"`   // that were read
	Entries []BootEntry `json:"entries"` // of Linux kernels, as the menu has them
	Next    string      `json:"next"`    // ID of the entry that is booted next, empty where it could not be told
	Why     string      `json:"why,omitempty"`
	// how arguments are changed: "/etc/default/grub.d", "grubby", "loader entries"
	Writer string `json:"writer,omitempty"`
	Frozen string `json:"read_only,omitempty"` // why they cannot be changed here, empty where they can
	// Modules tells of every argument MODULE.PARAMETER of the running and of the next command line what became of it.
	Modules map[string]ModuleArgument `json:"modules,omitempty"`
}

// BootEntry is one kernel of the boot menu.
type BootEntry struct {
	ID        string `json:"id"`
	Title     string `json:"title,omitempty"`
	Version   string `json:"version,omitempty"` // of the kernel, as uname -r would say
	Linux     string `json:"linux"`             // the kernel's file, as the boot loader names it
	Arguments string `json:"arguments"`         // as the kernel will get them, variables of the boot loader filled in
	Recovery  bool   `json:"recovery,omitempty"`
}

// ModuleArgument is what the running kernel knows of a module's parameter.
type ModuleArgument string

// What is known of an argument MODULE.PARAMETER.
const (
	// /sys/module/MODULE/parameters/PARAMETER is there, or modinfo names it
	ParameterKnown   ModuleArgument = "known"
	ParameterMissing ModuleArgument = "no such parameter"    // the module is there and has others
	ModuleNotLoaded  ModuleArgument = "module not loaded"    // nothing can be said
	ModuleSilent     ModuleArgument = "parameters not shown" // the module is there and shows none
)

// Entry is the entry of an ID and whether there is one.
func (b *Boot) Entry(id string) (BootEntry, bool) {
	if b != nil {
		for _, e := range b.Entries {
			if e.ID == id {
				return e, true
			}
		}
	}
	return BootEntry{}, false
}

// NextEntry is the entry that is booted next and whether it is known.
func (b *Boot) NextEntry() (BootEntry, bool) {
	if b == nil || b.Next == "" {
		return BootEntry{}, false
	}
	return b.Entry(b.Next)
}

// System is the distribution that the host runs.
type System struct {
	ID      string   `json:"id"`      // os-release: debian, rhel, centos, ol, ubuntu …
	Like    []string `json:"like"`    // os-release: ID_LIKE
	Version string   `json:"version"` // os-release: VERSION_ID
}
