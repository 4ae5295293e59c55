package facts

// Lasting is what decides whether a value stays: who else sets it, and what there is to put it back.
type Lasting struct {
	Systemd bool   `json:"systemd"`           // is the init system
	Program string `json:"program,omitempty"` // path of the mpps that took the facts
	// Packaged is set where a package brings mpps-restore.service.
	Packaged bool `json:"packaged,omitempty"`

	Sysctls []OwnedValue `json:"sysctls"` // of sysctl.d, in the order in which they are read at boot: the last wins
	Tuned   *Tuned       `json:"tuned,omitempty"`
	// NetworkManager lists what connection profiles set of devices (ethtool.ring-rx, link.tx-queue-length).
	NetworkManager []OwnedValue `json:"network_manager,omitempty"`
}

// OwnedValue is a value that somebody else's file sets.
type OwnedValue struct {
	Key   string `json:"key"` // of sysctl.d with slashes: net/core/dev_weight
	Value string `json:"value"`
	File  string `json:"file"`             // with its leading slash
	Of    string `json:"device,omitempty"` // the device that it is for, where the file names one
}

// Tuned is the profile that TuneD has in force.
type Tuned struct {
	Running bool         `json:"running"`
	Profile string       `json:"profile"`
	Sysctls []OwnedValue `json:"sysctls"` // of the profile and those that it includes
	// Plugins are the sections of the profile: cpu, net, disk, irqbalance, scheduler ….
	Plugins []string `json:"plugins"`
	// Options are what the sections of other plugins than sysctl say, by plugin and option: net.ring,
	// scheduler.isolated_cores, sysfs./sys/kernel/mm/ksm/run, modules.kvm. Variables are filled in; a value that TuneD
	// works out itself is empty.
	Options []OwnedValue `json:"options,omitempty"`
	// Chain are the files of the profile and of those that it includes, in the order in which they are merged: the last
	// counts.
	Chain []string `json:"chain,omitempty"`
	// Variables are those of the profile that could be filled in: isolated_cores and the like.
	Variables     map[string]string `json:"variables,omitempty"`
	VariableFiles []string          `json:"variable_files,omitempty"` // where they are to be changed
	// Arguments are the kernel arguments that the profile wants, BootArguments those that TuneD has handed to the boot
	// loader (/etc/tuned/bootcmdline).
	Arguments     string `json:"arguments,omitempty"`
	BootArguments string `json:"boot_arguments,omitempty"`
	// Reapplies is set where sysctl.d is read again behind TuneD's own kernel parameters, and wins (reapply_sysctl).
	Reapplies bool `json:"reapplies_sysctl"`
	// Missing are profiles and files of variables that are named and are not there.
	Missing []string `json:"missing,omitempty"`
}
