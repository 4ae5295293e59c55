// Package libvirt reads and writes the guests of a machine: definitions, devices, threads and networks, with virsh on
// the live machine and from the daemon's files in a recorded tree. It sends commands to guest agents.
package libvirt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// driver is the part of libvirt that mpps needs: virsh on the live machine, the daemon's files in a recorded tree.
type driver interface {
	// all returns every guest with its definitions.
	all(ctx context.Context) (guestList, error)
	// definition returns the persistent definition of a guest; errNoGuest if there is none. It has secrets (passwords
	// of consoles) only if requested.
	definition(ctx context.Context, guest string, secrets bool) (string, error)
	// running returns the definition that a guest runs with; errNoGuest if it does not run.
	running(ctx context.Context, guest string) (string, error)
	// define replaces the persistent definition of the guest that the text names.
	define(ctx context.Context, text string) error
}

// guestList is what libvirt knows.
type guestList struct {
	libvirt, qemu string // versions; empty if unknown
	Guests        []libvirtGuest
	Unread        []facts.Unseen // files of guests that could not be read
}

// libvirtGuest is one guest of libvirt.
type libvirtGuest struct {
	Name    string
	state   string
	defined string // persistent definition; empty for a transient guest
	Running string // the definition it runs with; empty if it does not run
}

var (
	errNoGuest   = errors.New("libvirt knows no such guest")
	errNoLibvirt = errors.New("libvirt is not there")
)

// libvirt's QEMU driver keeps a file NAME.xml of each guest in these folders (src/qemu/qemu_conf.c).
const (
	DefinedFolder = "etc/libvirt/qemu"
	RunningFolder = "run/libvirt/qemu"
)

// states are virsh's names of virDomainState (include/libvirt/libvirt-domain.h).
var states = [...]string{"no state", "running", "idle", "paused", "in shutdown", "shut off", "crashed", "pmsuspended"}

// stateWords are their names in status files (src/conf/domain_conf.c, virDomainState).
var stateWords = [len(states)]string{"nostate", "running", "blocked", "paused", "shutdown", "shutoff", "crashed",
	"pmsuspended"}

// Mechanisms returns the mechanisms of guests, their devices and threads, and networks.
func Mechanisms(m *tree.Tree, known *Definitions) setting.Mechanisms {
	pins := &threadPins{machine: m}
	return setting.Mechanisms{
		setting.Domain:         domains{m, known},
		setting.DomainDevice:   devices{m, unplugPatience},
		setting.VirtNetwork:    virtNetworks{m},
		setting.ThreadAffinity: pins,
		setting.DomainLive:     livePins{m, pins},
	}
}

// Open returns the driver for this machine's libvirt. The error is errNoLibvirt if it is not installed.
func Open(m *tree.Tree) (driver, error) {
	if !m.Live() {
		if !m.Exists(DefinedFolder) && !m.Exists(RunningFolder) {
			return nil, errNoLibvirt
		}
		return libvirtFiles{m}, nil
	}
	if argv := m.Libvirt.Virsh; len(argv) > 0 {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			return nil, fmt.Errorf("virsh as given: %w", err)
		}
		return Virsh{m, append([]string{path}, argv[1:]...)}, nil
	}
	socket := false
	for _, name := range []string{"libvirt-sock", "virtqemud-sock"} {
		socket = socket || m.Exists("run/libvirt/"+name)
	}
	if !socket {
		if m.Exists("etc/libvirt") {
			return nil, errors.New("libvirt's daemon does not run (no socket in /run/libvirt)")
		}
		return nil, errNoLibvirt
	}
	path, err := exec.LookPath("virsh")
	if err != nil {
		return nil, errors.New("virsh is not installed on the host (--virsh names one in a container)")
	}
	return Virsh{m, []string{path}}, nil
}

// Virsh runs the virsh program. Starting it is expensive (20 ms, ten times that under emulation), so one run gets
// several commands: virsh splits its argument at semicolons and continues after an error.
type Virsh struct {
	machine *tree.Tree
	argv    []string // the program, and what comes before virsh's own arguments
}

// words returns the arguments of the program: those of libvirt, then virsh's commands.
func (v Virsh) words(more ...string) []string {
	return slices.Concat(v.argv[1:], []string{"-q", "-c", cmp.Or(v.machine.Libvirt.URI, "qemu:///system")}, more)
}

// Run runs commands in one virsh and returns the standard output of each, which is empty for a failed command. If the
// last command failed, or virsh could not continue, it also returns an error with virsh's standard error.
func (v Virsh) Run(ctx context.Context, stdin string, commands ...string) ([]string, error) {
	outputs, _, err := v.runVerbose(ctx, stdin, commands...)
	return outputs, err
}

// runVerbose is Run, and also returns virsh's standard error: virsh continues after a failed command and exits with the
// code of the last one.
func (v Virsh) runVerbose(ctx context.Context, stdin string, commands ...string) ([]string, string, error) {
	mark := "mpps-" + rand.Text()
	script := strings.Join(commands, "; echo "+mark+"; ") + "; echo " + mark
	args := []string{script}
	if os.Geteuid() != 0 {
		args = []string{"-r", script}
	}
	text, stderr, _, err := v.machine.Program(ctx, stdin, v.argv[0], v.words(args...)...)
	outputs := strings.Split(text, mark)
	if len(outputs) <= len(commands) {
		return nil, stderr, errors.Join(fmt.Errorf("virsh answered %d of %d commands", max(len(outputs)-1, 0),
			len(commands)), err)
	}
	return outputs[:len(commands)], stderr, err
}

// change runs a virsh command that changes something.
func (v Virsh) change(ctx context.Context, stdin string, command ...string) error {
	return v.machine.Change(ctx, stdin, v.argv[0], v.words(command...)...)
}

// Quote quotes a word for virsh: between single quotes all but the single quote is literal.
func Quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// all reads everything in one run of virsh, since the names of libvirt's files are those of its guests. If the files
// cannot be listed, or a guest has none, another run follows.
func (v Virsh) all(ctx context.Context) (guestList, error) {
	var names []string
	for _, folder := range []string{DefinedFolder, RunningFolder} {
		for _, file := range v.machine.List(folder) {
			if name, isXML := strings.CutSuffix(file, ".xml"); isXML && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var all guestList
	texts := map[string][2]string{}
	for first := true; first || len(names) > 0; first = false {
		const batch = 100 // an argument holds 128 KiB (MAX_ARG_STRLEN), a name at most 255 bytes
		now := names[:min(len(names), batch)]
		names = names[len(now):]
		var commands []string
		if first {
			commands = []string{"domstats --state", "version"}
		}
		for _, name := range now {
			commands = append(commands, "dumpxml --inactive --domain "+Quote(name), "dumpxml --domain "+Quote(name))
		}
		outputs, err := v.Run(ctx, "", commands...)
		if len(outputs) != len(commands) {
			return all, err
		}
		if first {
			all.Guests = parseDomstats(outputs[0])
			all.libvirt, all.qemu = parseVersions(outputs[1])
			if outputs[0] == "" && outputs[1] == "" {
				return all, err
			}
			outputs = outputs[2:]
		}
		for i, name := range now {
			texts[name] = [2]string{trimXML(outputs[2*i]), trimXML(outputs[2*i+1])}
		}
		if first {
			for _, guest := range all.Guests {
				if _, seen := texts[guest.Name]; !seen && !slices.Contains(names, guest.Name) {
					names = append(names, guest.Name)
				}
			}
		}
	}
	for i := range all.Guests {
		guest := &all.Guests[i]
		guest.defined, guest.Running = texts[guest.Name][0], texts[guest.Name][1]
		if guest.defined == "" && guest.Running == "" {
			all.Unread = append(all.Unread, facts.DefinitionUnseen(guest.Name, "virsh dumpxml printed nothing"))
		}
		if !isRunning(guest.Running) {
			guest.Running = ""
		}
	}
	return all, nil
}

// trimXML returns a document printed by dumpxml, without the empty line after it; empty if nothing was printed.
func trimXML(text string) string {
	if text = strings.TrimSpace(text); text != "" {
		text += "\n"
	}
	return text
}

// isRunning reports whether a definition is that of a running guest, which has an ID: <domain type='kvm' id='1'>.
// dumpxml also prints guests that are shut off.
func isRunning(text string) bool {
	tag, _, _ := strings.Cut(text, ">")
	return strings.Contains(tag, " id=")
}

// parseDomstats reads "virsh domstats --state": "Domain: 'NAME'" and lines "  state.state=1".
func parseDomstats(text string) []libvirtGuest {
	var list []libvirtGuest
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, found := strings.CutPrefix(line, "Domain: '"); found {
			list = append(list, libvirtGuest{Name: strings.TrimSuffix(name, "'"), state: states[0]})
			continue
		}
		var n int
		if len(list) > 0 && threads.ScanNumber(line, "state.state=", &n) && n < len(states) {
			list[len(list)-1].state = states[n]
		}
	}
	return list
}

// parseVersions reads "virsh version".
func parseVersions(text string) (libvirt, qemu string) {
	for line := range strings.Lines(text) {
		label, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, version, _ := strings.Cut(value, " ")
		switch {
		case label == "Using library" && name == "libvirt":
			libvirt = version
		case label == "Running hypervisor" && name == "QEMU":
			qemu = version
		}
	}
	return libvirt, qemu
}

func (v Virsh) definition(ctx context.Context, guest string, secrets bool) (string, error) {
	command := "dumpxml --inactive --domain " + Quote(guest)
	if secrets {
		command = "dumpxml --inactive --security-info --domain " + Quote(guest)
	}
	return v.one(ctx, command)
}

func (v Virsh) running(ctx context.Context, guest string) (string, error) {
	text, err := v.one(ctx, "dumpxml --domain "+Quote(guest))
	if err == nil && !isRunning(text) {
		return "", errNoGuest
	}
	return text, err
}

// one runs one command and returns its output; errNoGuest if there is none.
func (v Virsh) one(ctx context.Context, command string) (string, error) {
	outputs, err := v.Run(ctx, "", command)
	switch {
	case len(outputs) == 1 && strings.TrimSpace(outputs[0]) != "":
		return trimXML(outputs[0]), nil
	case err == nil || tree.Mentions(err, "Domain not found", "failed to get domain"):
		return "", errNoGuest
	}
	return "", err
}

func (v Virsh) define(ctx context.Context, text string) error {
	return v.machine.Change(ctx, text, v.argv[0], v.words("define", "--file", "/proc/self/fd/0")...)
}

// libvirtFiles reads the files of libvirt's QEMU driver: definitions and status files.
type libvirtFiles struct{ machine *tree.Tree }

// secret matches what libvirt writes into its files but shows only on request.
var secret = regexp.MustCompile(`\spasswd=('[^']*'|"[^"]*")`)

func (l libvirtFiles) all(context.Context) (guestList, error) {
	var all guestList
	at := map[string]int{}
	for _, folder := range []string{DefinedFolder, RunningFolder} {
		for _, file := range l.machine.List(folder) {
			name, isXML := strings.CutSuffix(file, ".xml")
			if !isXML {
				continue
			}
			text, err := readDefinition(l.machine, folder+"/"+file)
			if err != nil {
				all.Unread = append(all.Unread, facts.DefinitionUnseen(name, err.Error()))
				continue
			}
			if _, seen := at[name]; !seen {
				at[name] = len(all.Guests)
				all.Guests = append(all.Guests, libvirtGuest{Name: name, state: "shut off"})
			}
			guest := &all.Guests[at[name]]
			if folder == DefinedFolder {
				guest.defined = withoutHeader(text)
				continue
			}
			guest.state, guest.Running = parseStatus(text)
		}
	}
	return all, nil
}

// readDefinition reads a definition or a status file, which holds one. libvirt takes none that the parser does not.
func readDefinition(m *tree.Tree, file string) (string, error) {
	text, err := m.Read(file)
	if err == nil && len(text) > domain.MaxBytes {
		return "", fmt.Errorf("%s: larger than %d MiB", file, domain.MaxBytes>>20)
	}
	return text, err
}

// withoutHeader returns a definition without libvirt's leading comment and without secrets.
func withoutHeader(text string) string {
	if at := strings.Index(text, "<domain"); at >= 0 {
		text = text[at:]
	}
	return secret.ReplaceAllString(text, "")
}

// parseStatus returns the state and the definition in a status file: <domstatus state='running' …> contains <domain>.
func parseStatus(text string) (state, running string) {
	state = "running"
	_, rest, _ := strings.Cut(text, "<domstatus state='")
	if word, _, found := strings.Cut(rest, "'"); found {
		state = word
		if i := slices.Index(stateWords[:], word); i >= 0 {
			state = states[i]
		}
	}
	from, to := strings.Index(text, "<domain"), strings.LastIndex(text, "</domain>")
	for from >= 0 && strings.HasPrefix(text[from:], "<domainJob") {
		next := strings.Index(text[from+1:], "<domain")
		if next < 0 {
			return state, ""
		}
		from += 1 + next
	}
	if from < 0 || to < from {
		return state, ""
	}
	return state, secret.ReplaceAllString(text[from:to]+"</domain>\n", "")
}

func (l libvirtFiles) definition(_ context.Context, guest string, _ bool) (string, error) {
	text, err := readDefinition(l.machine, DefinedFolder+"/"+guest+".xml")
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoGuest
	}
	return withoutHeader(text), err
}

func (l libvirtFiles) running(_ context.Context, guest string) (string, error) {
	text, err := runningFile(l.machine, guest)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoGuest
	}
	_, running := parseStatus(text)
	return running, err
}

func (l libvirtFiles) define(context.Context, string) error { return tree.ErrNotLive }

// ByFiles returns the guests from libvirt's files, which needs no daemon.
func ByFiles(ctx context.Context, m *tree.Tree) (guestList, error) {
	return libvirtFiles{m}.all(ctx)
}
