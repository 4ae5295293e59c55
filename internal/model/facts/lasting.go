package facts

// Lasting describes what makes a value persist: who else sets it, and what can restore it.
type Lasting struct {
	Systemd bool   `json:"systemd"`           // systemd is the init system
	Program string `json:"program,omitempty"` // path of the mpps that took the snapshot
	// Packaged is set if mpps-restore.service comes from a package.
	Packaged bool `json:"packaged,omitempty"`

	Sysctls []OwnedValue `json:"sysctls"` // from sysctl.d, in boot order: the last one wins
	Tuned   *Tuned       `json:"tuned,omitempty"`
	// NetworkManager lists what connection profiles set on devices (ethtool.ring-rx, link.tx-queue-length).
	NetworkManager []OwnedValue `json:"network_manager,omitempty"`
}

// OwnedValue is a value set by another program's file.
type OwnedValue struct {
	Key   string `json:"key"` // sysctl keys have slashes: net/core/dev_weight
	Value string `json:"value"`
	File  string `json:"file"`             // with its leading slash
	Of    string `json:"device,omitempty"` // device it is for, if the file names one
}

// Tuned is TuneD's active profile.
type Tuned struct {
	Running bool         `json:"running"`
	Profile string       `json:"profile"`
	Sysctls []OwnedValue `json:"sysctls"` // from the profile and those it includes
	// Plugins are the sections of the profile: cpu, net, disk, irqbalance, scheduler ….
	Plugins []string `json:"plugins"`
	// Options are the options of sections for plugins other than sysctl, by plugin and option: net.ring,
	// scheduler.isolated_cores, sysfs./sys/kernel/mm/ksm/run, modules.kvm. Variables are expanded; a value that TuneD
	// computes itself is empty.
	Options []OwnedValue `json:"options,omitempty"`
	// Chain lists the files of the profile and those it includes in merge order: the last one wins.
	Chain []string `json:"chain,omitempty"`
	// Variables are the profile's variables that could be expanded, such as isolated_cores.
	Variables     map[string]string `json:"variables,omitempty"`
	VariableFiles []string          `json:"variable_files,omitempty"` // where to change them
	// Arguments are the kernel arguments that the profile wants. BootArguments are those that TuneD passed to the boot
	// loader (/etc/tuned/bootcmdline).
	Arguments     string `json:"arguments,omitempty"`
	BootArguments string `json:"boot_arguments,omitempty"`
	// Reapplies is set if sysctl.d is applied again after TuneD's own sysctls, and so wins (reapply_sysctl).
	Reapplies bool `json:"reapplies_sysctl"`
	// Missing lists profiles and variable files that are referenced but do not exist.
	Missing []string `json:"missing,omitempty"`
}
