package inside

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
)

// A guest's files are read with programs that every Linux has (grep, find and ls, of GNU or busybox), rebuilt below a
// private directory, and read there by the code that reads a host.

// Limits of a guest's replies: it is not trusted.
const (
	maxFiles = 100_000
	maxBytes = 16 << 20
	maxCPUs  = 512
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

// guestTree is a guest's files as reported, before they are written. Keys are paths without a leading slash and with
// all links resolved.
type guestTree struct {
	files  map[string]string
	links  map[string]string
	dirs   map[string]bool
	denied map[string]string // files that could not be read, with the reason
	size   int
}

func newGuestTree() *guestTree {
	return &guestTree{files: map[string]string{}, links: map[string]string{}, dirs: map[string]bool{},
		denied: map[string]string{}}
}

// resolve returns a path with known links resolved.
func (t *guestTree) resolve(name string) string { return t.follow(name, 40) }

func (t *guestTree) follow(name string, left int) string {
	at := ""
	for element := range strings.SplitSeq(name, "/") {
		switch element {
		case "", ".":
			continue
		case "..":
			at = strings.TrimPrefix(path.Dir("/"+at), "/")
			continue
		}
		next := path.Join(at, element)
		if target, isLink := t.links[next]; isLink && left > 0 {
			next = t.follow(path.Join("/"+at, target), left-1)
		}
		at = next
	}
	return at
}

// isAsked reports whether a path is in a directory that a guest is asked for.
func isAsked(name string) bool {
	return strings.HasPrefix(name, "proc/") || strings.HasPrefix(name, "sys/")
}

// addSize adds to the size and returns an error if the guest reports too much.
func (t *guestTree) addSize(bytes int) error {
	t.size += bytes
	if t.size > maxBytes || len(t.files)+len(t.links)+len(t.dirs) > maxFiles {
		return errors.New("it tells more files than a guest has")
	}
	return nil
}

// addLinks adds the links in the output of "ls -ld": "… /sys/class/net/eth0 -> ../../devices/…", shorter paths first.
func (t *guestTree) addLinks(text string) error {
	type link struct{ name, target string }
	var all []link
	for line := range strings.Lines(text) {
		at := strings.Index(line, " /sys/")
		if at < 0 {
			continue
		}
		if name, target, found := strings.Cut(strings.TrimSpace(line[at+2:]), " -> "); found && !path.IsAbs(target) {
			all = append(all, link{name, target})
		}
	}
	slices.SortStableFunc(all, func(a, b link) int { return strings.Count(a.name, "/") - strings.Count(b.name, "/") })
	for _, l := range all {
		folder, base := path.Split(l.name)
		name := path.Join(t.resolve(folder), base)
		if !isAsked(name) || base == ".." {
			return fmt.Errorf("it tells of a link %q", l.name)
		}
		t.links[name] = l.target
		if target := t.resolve(name); path.Dir(name) == tree.ClassNet && isAsked(target) {
			t.dirs[target] = true
		}
		if err := t.addSize(len(l.name) + len(l.target)); err != nil {
			return err
		}
	}
	return nil
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
		if name = t.resolve(name); !isAsked(name) {
			return fmt.Errorf("it tells of a file %q", name)
		}
		if texts[name] == nil {
			texts[name] = &strings.Builder{}
			t.files[name] = ""
		}
		texts[name].WriteString(value + "\n")
		if err := t.addSize(len(line)); err != nil {
			return err
		}
	}
	for name, all := range texts {
		t.files[name] = all.String()
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
		if name = t.resolve(name); !isAsked(name) {
			return fmt.Errorf("it tells of a directory %q", name)
		}
		t.dirs[name] = true
		if err := t.addSize(len(name)); err != nil {
			return err
		}
	}
	return nil
}

// noteMissing notes which of the requested files could not be read, from grep's standard error ("grep: PATH: REASON").
// It adds files that exist but have no line as empty ones.
func (t *guestTree) noteMissing(files []string, stderr string) {
	missing := map[string]bool{}
	for line := range strings.Lines(stderr) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "grep: ")
		name, problem, found := strings.Cut(line, ": ")
		switch {
		case !found:
		case strings.Contains(problem, "No such file"):
			missing[name] = true
		default:
			t.denied[t.resolve(name)] = problem
		}
	}
	for _, file := range files {
		name := t.resolve(file)
		if _, read := t.files[name]; !read && !missing[file] && t.denied[name] == "" {
			t.files[name] = ""
		}
	}
}

// write writes the files into a temporary directory and opens it. done closes and removes it.
func (t *guestTree) write() (written *tree.Tree, done func() error, err error) {
	dir, err := os.MkdirTemp("", "mpps-inside-")
	if err != nil {
		return nil, nil, err
	}
	if written, err = tree.Open(dir); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	done = func() error { return errors.Join(written.Close(), os.RemoveAll(dir)) }
	made := map[string]bool{}
	folder := func(name string) error {
		if made[name] {
			return nil
		}
		made[name] = true
		return written.Root.MkdirAll(name, 0o700)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(t.dirs)) {
		if _, isLink := t.links[name]; !isLink {
			errs = append(errs, folder(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.links)) {
		errs = append(errs, folder(path.Dir(name)), written.Root.Symlink(t.links[name], name))
	}
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		errs = append(errs, folder(path.Dir(name)), written.Root.WriteFile(name, []byte(t.files[name]), 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("what it tells of its files does not fit together: %w", err), done())
	}
	return written, done, nil
}
