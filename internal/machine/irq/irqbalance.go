package irq

import (
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// irqbalanceFiles are the environment files of irqbalance's unit: of Debian and its derivatives, of RHEL and SUSE.
var irqbalanceFiles = []string{"etc/default/irqbalance", "etc/sysconfig/irqbalance"}

// Balance returns irqbalance's configuration from the environment of the running process, else from its unit's
// environment file; nil if it does not run and has no file.
func Balance(m *tree.Tree, services []facts.Service) *facts.IRQBalance {
	pid := 0
	for _, s := range services {
		if s.Name == "irqbalance" && s.Running {
			pid = s.PID
		}
	}
	if pid != 0 {
		if text, err := m.Read("proc/" + strconv.Itoa(pid) + "/environ"); err == nil && text != "" {
			b := bannedCPUs(strings.Split(text, "\x00"))
			b.From = "its environment"
			readArguments(&b, argumentsOf(strings.Split(text, "\x00")))
			return &b
		}
	}
	for _, file := range irqbalanceFiles {
		text, err := m.Read(file)
		if err != nil {
			continue
		}
		b := bannedCPUs(strings.Split(text, "\n"))
		b.From = "/" + file
		readArguments(&b, argumentsOf(strings.Split(text, "\n")))
		return &b
	}
	if pid == 0 {
		return nil
	}
	return &facts.IRQBalance{Banned: setting.CPUSet{},
		Why: "neither its environment nor a file of its unit could be read"}
}

// bannedCPUs reads the variables with banned CPUs: a list, or in versions before 1.8 a mask. The last assignment
// counts, as in a file of systemd's EnvironmentFile=. An empty variable bans nothing (irqbalance, cputree.c,
// setup_banned_cpus).
func bannedCPUs(lines []string) facts.IRQBalance {
	b := facts.IRQBalance{Banned: setting.CPUSet{}}
	for _, name := range []string{"IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST"} {
		for _, line := range lines {
			value, is := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "export "), name+"=")
			if !is {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			set, err := setting.ParseCPUs(value)
			if name == "IRQBALANCE_BANNED_CPUS" && value != "" {
				set, err = setting.ParseCPUMask(value)
			}
			if b.Configured, b.Why = true, ""; err != nil {
				b.Why = name + ": " + err.Error()
				continue
			}
			b.Banned = tree.OrEmpty(set)
		}
	}
	return b
}

// argumentsOf returns the arguments that its unit's environment gives irqbalance: of RHEL and its upstream, and of
// Debian before 1.1. The last assignment counts.
func argumentsOf(lines []string) (args []string) {
	for _, line := range lines {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		for _, name := range []string{"IRQBALANCE_ARGS", "OPTIONS"} {
			if value, is := strings.CutPrefix(line, name+"="); is {
				args = strings.Fields(strings.Trim(value, `"'`))
			}
		}
	}
	return args
}

// readArguments reads which interrupts irqbalance leaves alone, and what decides for each (irqbalance(1)): as
// --option=value or as --option value.
func readArguments(b *facts.IRQBalance, args []string) {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--policyscript", "-l":
			b.Script = value
		case "--banirq", "-i":
			if n, err := strconv.Atoi(value); err == nil {
				b.IRQs = append(b.IRQs, n)
			}
		}
	}
}
