package knob

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// kernelParameters are the names of documented kernel parameters; scripts/kernel-parameters.sh updates the list.
//
//go:embed kernel_parameters.txt
var kernelParameters string

// undocumented are arguments that the kernel parses although its documentation omits them.
var undocumented = []string{
	"pcie_aspm.policy", "intel_idle.use_acpi", "intel_idle.no_acpi", "cgroup_enable", "net.ifnames", "no_timer_check",
	"nokaslr", "swiotlb", "elevator", "max_loop", "ima", "vga", "mem_sleep_default",
	"no_stf_barrier", "noibrs", "noibpb", "nospectre_v1", // of POWER and of EL7
	"fw_devlink", "dyndbg", "module.sig_enforce", "raid", "rootflags", "lockdown", "ramoops.mem_size",
}

// userSpace maps arguments for programs that read /proc/cmdline to those programs. A name that ends in a dot stands for
// every name that begins with it.
var userSpace = map[string]string{
	"rd.": "dracut, systemd", "systemd.": "systemd", "luks.": "systemd", "fsck.": "systemd", "udev.": "udev",
	"vconsole.": "systemd", "locale.": "systemd", "plymouth.": "plymouth",
	"rhgb": "plymouth", "splash": "plymouth", "net.ifnames": "udev", "biosdevname": "biosdevname",
	"modules_load": "systemd", "BOOT_IMAGE": "the boot loader", "initrd": "the boot loader",
	"ds": "cloud-init", "cloud-init": "cloud-init", "ip": "dracut", "nameserver": "dracut", "ifname": "dracut",
	"bond": "dracut", "bridge": "dracut", "vlan": "dracut", "netroot": "dracut",
	"boot": "initramfs-tools", "break": "initramfs-tools", "toram": "live systems", "components": "live systems",
	"single": "init", "emergency": "init", "rescue": "init",
	"s": "init", "1": "init", "2": "init", "3": "init", "4": "init", "5": "init", "rdinit": "the kernel",
	"LANG": "init", "LC_ALL": "init", "TERM": "init", "PATH": "init",
	"cgroup_no_v1": "the kernel", "ostree": "ostree", "ignition.": "ignition", "inst.": "anaconda",
	"preseed": "debian-installer", "auto": "debian-installer", "quiet": "the kernel",
	"root": "the kernel", "resume": "the kernel", "nosplash": "plymouth", "forcefsck": "init", "fastboot": "init",
	"vt.handoff": "Ubuntu's kernel", "zfs": "ZFS", "KEYMAP": "dracut", "rw": "the kernel",
}

// ignoredValues are values that guides recommend and the kernel does not parse: what they ask for is so anyway.
var ignoredValues = map[string]struct{ value, why string }{
	"amd_iommu": {"on", "AMD's IOMMU is on by default, and on is not a value that the kernel parses"},
}

// documented is the set of known names, spelled with underscores as in the kernel.
var documented = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(kernelParameters) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names[setting.ArgumentName(line)] = true
		}
	}
	for _, name := range undocumented {
		names[setting.ArgumentName(name)] = true
	}
	return names
})

// oddity is a kernel argument that does not do what it seems to do.
type oddity struct {
	word string
	why  string
	near []string
	idle bool // what it asks for is so anyway
}

func (o oddity) String() string {
	if len(o.near) > 0 {
		return fmt.Sprintf("%s (%s: %s?)", o.word, o.why, strings.Join(o.near, " or "))
	}
	return fmt.Sprintf("%s (%s)", o.word, o.why)
}

// mostWords is how many arguments are checked. x86 takes 2,048 bytes (COMMAND_LINE_SIZE), s390 4,096.
const mostWords = 2048

// lint checks a command line. odd are misspellings and values that the kernel does not parse; passed are words that no
// kernel documents and no known program reads: they become arguments or environment of init.
func lint(line setting.CommandLine, modules map[string]facts.ModuleArgument) (odd, passed []oddity) {
	names := documented()
	words := line.ForKernel()
	for _, word := range words[:min(len(words), mostWords)] {
		raw, value, _ := setting.Argument(word)
		name := setting.ArgumentName(raw)
		if wrong, known := ignoredValues[name]; known && value == wrong.value {
			odd = append(odd, oddity{word: word, why: wrong.why, idle: true})
			continue
		}
		module, _, dotted := strings.Cut(name, ".")
		switch {
		case names[name], names[module+".*"] && dotted, forUserSpace(raw):
			continue
		case dotted && modules[name] == facts.ParameterKnown:
			continue
		}
		near := nearParameters(name, names)
		switch {
		case dotted && modules[name] == facts.ParameterMissing:
			odd = append(odd, oddity{word: word, why: "module " + module + " has no such parameter", near: near})
		case len(near) > 0:
			odd = append(odd, oddity{word: word, why: "the kernel does not know it", near: near})
		case dotted: // of a module that is not loaded
		default:
			passed = append(passed, oddity{word: word, why: "passed to init"})
		}
	}
	return odd, passed
}

// forUserSpace reports whether an argument is for a program in user space.
func forUserSpace(name string) bool {
	if userSpace[name] != "" || userSpace[setting.ArgumentName(name)] != "" {
		return true
	}
	for i := range len(name) {
		if name[i] == '.' && userSpace[name[:i+1]] != "" {
			return true
		}
	}
	return false
}

// nearParameters returns up to three documented names that a name may be a typo of: one letter off, or two in names of
// ten letters and more. Names of fewer than four letters resemble too many.
func nearParameters(name string, names map[string]bool) []string {
	most := 1
	switch {
	case len(name) < 4 || len(name) > 64:
		return nil
	case len(name) >= 10:
		most = 2
	}
	var near []string
	distance := map[string]int{}
	for other := range names {
		if len(other) < 4 || len(other)-len(name) > most || len(name)-len(other) > most {
			continue
		}
		if d := words.Distance(name, other); d <= most {
			near = append(near, other)
			distance[other] = d
		}
	}
	slices.SortFunc(near, func(a, b string) int {
		if d := distance[a] - distance[b]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return near[:min(3, len(near))]
}

var bootLint = &Knob{
	ID: "boot.lint", Title: "Every kernel argument is one that the kernel knows",
	Stage: datapath.Kernel, Risk: goal.None, Check: true,
	Where: fixed(hostFact("running_arguments"), hostFact("next_arguments")),
	Want: func(v *View, a setting.Address) Advice {
		text := v.Kernel.CommandLine
		if a.Rest() == "next_arguments" {
			next, known := v.Boot.NextEntry()
			switch {
			case v.Boot == nil:
				return Unsure("no boot loader's files can be seen")
			case !known:
				return Unsure("which kernel is booted next is not known: " + v.Boot.Why)
			}
			text = next.Arguments
		}
		if text == "" {
			return Unsure("the command line is not known")
		}
		var modules map[string]facts.ModuleArgument
		if v.Boot != nil {
			modules = v.Boot.Modules
		}
		line := setting.ParseCommandLine(text)
		odd, passed := lint(line, modules)
		if len(odd) > 0 {
			words, severity := make([]string, len(odd)), Low
			for i, o := range odd {
				words[i] = o.String()
				if !o.idle {
					severity = Medium
				}
			}
			return fact(strings.Join(words, "; "), exact("arguments that the kernel knows",
				"the kernel ignores what it does not know, silently").At(severity))
		}
		found := Count(len(line), "argument")
		because := "every argument is known"
		if len(passed) > 0 {
			words := make([]string, len(passed))
			for i, o := range passed {
				words[i] = o.word
			}
			because = "not the kernel's, passed to init: " + strings.Join(words, " ")
		}
		return fact(found, Fine(because))
	},
}
