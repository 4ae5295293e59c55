package inside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
)

// A guest's files are read with programs that every Linux has (grep, find and ls, of GNU or busybox), rebuilt in
// memory, and read there by the code that reads a host. tree.Memory bounds their number, their size and the work.

// maxCPUs and maxNICs are how many of a guest are read.
const (
	maxCPUs = 512
	maxNICs = 1024
)

// nicLinks are the links below a NIC's directory that are read, and nicFiles its files and folders.
var (
	nicLinks = []string{"", "/device", "/device/driver", "/device/subsystem", "/device/../subsystem", "/master"}
	nicFiles = []string{
		"/ifindex", "/iflink", "/address", "/flags", "/mtu", "/tx_queue_len", "/uevent", "/carrier", "/speed",
		"/statistics", "/queues",
		"/device/../uevent", "/device/../numa_node", "/device/../msi_irqs",
	}
)

// eachNIC returns a find command that runs a program for every NIC with some of its files.
func eachNIC(argv []string, files []string) libvirt.Call {
	all := append([]string{"find", "/sys/class/net/", "-maxdepth", "1", "-type", "l", "-exec"}, argv...)
	for _, file := range files {
		all = append(all, "{}"+file)
	}
	return libvirt.Call{Argv: append(all, ";")}
}

// nicPrograms returns the programs that read a guest's NICs and interrupts: the links of its NICs, their files, the
// handlers of interrupts.
func nicPrograms() []libvirt.Call {
	return []libvirt.Call{
		eachNIC([]string{"ls", "-ld"}, nicLinks),
		eachNIC([]string{"grep", "-rHsa", ""}, nicFiles),
		{Argv: []string{"find", "/proc/irq", "-mindepth", "2", "-type", "d"}},
	}
}

// hostPaths returns the files and folders of a guest that the inventory reads, besides those of its NICs and
// processes.
func hostPaths(cpus int) []string {
	all := []string{
		"/proc/cmdline", "/proc/cpuinfo", "/proc/interrupts", "/proc/irq", "/proc/meminfo", "/proc/net/softnet_stat",
		"/proc/swaps", "/proc/version",
		"/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/version",
		"/sys/class/dmi/id/product_name", "/sys/class/dmi/id/sys_vendor",
		"/sys/devices/system/clocksource/clocksource0", "/sys/devices/system/node",
		"/sys/kernel/mm/hugepages", "/sys/kernel/mm/ksm", "/sys/kernel/realtime",
	}
	const cpu = "/sys/devices/system/cpu/"
	for _, name := range []string{"isolated", "nohz_full", "online", "possible", "present", "smt", "vulnerabilities"} {
		all = append(all, cpu+name)
	}
	for i := range min(cpus, maxCPUs) {
		folder := cpu + "cpu" + strconv.Itoa(i)
		all = append(all, folder+"/online", folder+"/topology", folder+"/cache")
	}
	return all
}

// guestTree is a guest's files as reported.
type guestTree struct {
	*tree.Memory
	denied map[string]string // files that could not be read, with the reason
}

// newGuestTree returns an empty tree, which can be read until ctx is done.
func newGuestTree(ctx context.Context) *guestTree {
	return &guestTree{Memory: tree.NewMemory(ctx), denied: map[string]string{}}
}

// isAsked reports whether a path is in a directory that a guest is asked for.
func isAsked(name string) bool {
	return strings.HasPrefix(name, "proc/") || strings.HasPrefix(name, "sys/")
}

// checkAsked returns an error if what the guest reported is elsewhere once its links are resolved.
func (t *guestTree) checkAsked(what, name string) error {
	if !isAsked(t.Where(name)) {
		return fmt.Errorf("it reports %s %.80q", what, name)
	}
	return t.Err()
}

// addLinks adds the links in the output of "ls -ld": "… /sys/class/net/eth0 -> ../../devices/…", shorter paths first.
func (t *guestTree) addLinks(text string) error {
	type link struct {
		name, target string
		depth        int
	}
	var all []link
	for line := range strings.Lines(text) {
		at := strings.Index(line, " /sys/")
		if at < 0 {
			continue
		}
		if name, target, found := strings.Cut(strings.TrimSpace(line[at+2:]), " -> "); found && !path.IsAbs(target) {
			all = append(all, link{name, target, strings.Count(name, "/")})
		}
	}
	slices.SortStableFunc(all, func(a, b link) int { return a.depth - b.depth })
	var nics []string
	for _, l := range all {
		folder, _ := path.Split(l.name)
		if err := t.Link(l.name, l.target); err != nil {
			return mismatch(err)
		}
		switch parent := t.Where(folder); {
		case !isAsked(parent + "/"):
			return fmt.Errorf("it reports a link %.80q", l.name)
		case parent == tree.ClassNet:
			nics = append(nics, l.name)
		}
		if err := t.Err(); err != nil {
			return err
		}
	}
	for _, nic := range nics {
		if t.Dir(nic) != nil {
			continue // it leads nowhere, or in a circle
		}
		if err := t.checkAsked("a link", nic); err != nil {
			return err
		}
	}
	return t.Err()
}

// addFiles adds the files in the output of grep, which is PATH:TEXT for each line of a file. No path has a colon. It
// replaces files that were added before.
func (t *guestTree) addFiles(text string) error {
	texts := map[string]*strings.Builder{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if !found || !strings.HasPrefix(name, "/") {
			continue
		}
		if texts[name] == nil {
			texts[name] = &strings.Builder{}
		}
		texts[name].WriteString(value + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if err := t.File(name, texts[name].String()); err != nil {
			return mismatch(err)
		}
		if err := t.checkAsked("a file", name); err != nil {
			return err
		}
	}
	return nil
}

// addDirs adds a directory for each line.
func (t *guestTree) addDirs(text string) error {
	for line := range strings.Lines(text) {
		name := strings.TrimSpace(line)
		if !strings.HasPrefix(name, "/") {
			continue
		}
		if err := t.Dir(name); err != nil {
			return mismatch(err)
		}
		if err := t.checkAsked("a directory", name); err != nil {
			return err
		}
	}
	return nil
}

// mismatch explains an error of the tree: the guest reported, for example, a file in a file.
func mismatch(err error) error {
	return fmt.Errorf("what it reports of its files does not fit together: %w", err)
}

// noteMissing notes which of the requested files could not be read, from grep's standard error ("grep: PATH: REASON").
// It adds files that exist but have no line as empty ones.
func (t *guestTree) noteMissing(files []string, stderr string) (err error) {
	missing := map[string]bool{}
	for line := range strings.Lines(stderr) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "grep: ")
		name, problem, found := strings.Cut(line, ": ")
		switch {
		case !found:
		case strings.Contains(problem, "No such file"):
			missing[name] = true
		default:
			t.denied[name] = libvirt.FirstLine(problem)
		}
	}
	for _, file := range files {
		if t.Where(file) == "" && !missing[file] && t.denied[file] == "" {
			err = errors.Join(err, t.File(file, ""))
		}
	}
	return err
}
