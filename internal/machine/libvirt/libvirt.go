// Package libvirt reads and writes the guests of a machine: their definitions, devices, threads and networks, by virsh
// on the live machine and by the daemon's own files of a recorded tree. It asks the agents inside the guests.
package libvirt

import (
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
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// driver is what mpps needs of libvirt. There are two: virsh for the live machine, the daemon's own files for a
// recorded tree.
type driver interface {
	// all lists every guest with its definitions.
	all(ctx context.Context) (found, error)
	// definition is the persistent definition of one guest; errNoGuest where there is none. Secrets (passwords of
	// consoles) are in it only if asked for.
	definition(ctx context.Context, guest string, secrets bool) (string, error)
	// running is the definition that a guest runs with; errNoGuest where it does not run.
	running(ctx context.Context, guest string) (string, error)
	// define replaces the persistent definition of the guest that the text names.
	define(ctx context.Context, text string) error
}

// found is what libvirt knows.
type found struct {
	libvirt, qemu string // versions, empty where not told
	Guests        []libvirtGuest
	Unread        []facts.Unseen // files of guests that could not be read
}

// libvirtGuest is one guest of libvirt.
type libvirtGuest struct {
	Name    string
	state   string
	defined string // persistent definition, empty of a transient guest
	Running string // what it runs with, empty where it does not run
}

var (
	errNoGuest   = errors.New("libvirt knows no such guest")
	errNoLibvirt = errors.New("libvirt is not there")
)

// definedFolder and runningFolder are where libvirt's QEMU driver keeps a file NAME.xml of each guest
// (src/qemu/qemu_conf.c).
const (
	DefinedFolder = "etc/libvirt/qemu"
	RunningFolder = "run/libvirt/qemu"
)

// states are libvirt's words for virDomainState (include/libvirt/libvirt-domain.h), as virsh prints them.
var states = [...]string{"no state", "running", "idle", "paused", "in shutdown", "shut off", "crashed", "pmsuspended"}

// stateWords are the same in status files (src/conf/domain_conf.c, virDomainState).
var stateWords = [len(states)]string{"nostate", "running", "blocked", "paused", "shutdown", "shutoff", "crashed",
	"pmsuspended"}

// Mechanisms are those of guests, their devices and threads, and networks.
func Mechanisms(m *tree.Tree, known *Definitions) setting.Mechanisms {
	pins := &threadPins{machine: m}
	return setting.Mechanisms{
		setting.Domain:         domains{m, known},
		setting.DomainDevice:   devices{m, letGo},
		setting.VirtNetwork:    virtNetworks{m},
		setting.ThreadAffinity: pins,
		setting.DomainLive:     livePins{m, pins},
	}
}

// Open is how this machine's libvirt is asked. The error says why it cannot be: errNoLibvirt where nothing of it is
// installed.
func Open(m *tree.Tree) (driver, error) {
	if !m.Live() {
		if !m.Exists(DefinedFolder) && !m.Exists(RunningFolder) {
			return nil, errNoLibvirt
		}
		return libvirtFiles{m}, nil
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
		return nil, errors.New("virsh is not installed")
	}
	return Virsh{m, path}, nil
}

// Virsh drives the virsh program. A start of it is expensive (20 ms, ten times that under emulation), so several
// commands go to one: virsh takes a list of commands as one argument, splits it at semicolons and goes on after an
// error.
type Virsh struct {
	machine *tree.Tree
	path    string
}

// Run runs commands in one virsh and returns what each printed on standard output. A command that failed printed
// nothing; where it was the last one, or virsh could not go on, the error holds what virsh said, beside the outputs of
// the others.
func (v Virsh) Run(ctx context.Context, stdin string, commands ...string) ([]string, error) {
	outputs, _, err := v.saying(ctx, stdin, commands...)
	return outputs, err
}

// saying is run with what virsh said on standard error: virsh goes on after a command that failed, and its exit code is
// that of the last one.
func (v Virsh) saying(ctx context.Context, stdin string, commands ...string) ([]string, string, error) {
	mark := "mpps-" + rand.Text()
	script := strings.Join(commands, "; echo "+mark+"; ") + "; echo " + mark
	args := []string{"-q", "-c", "qemu:///system"}
	if os.Geteuid() != 0 {
		args = append(args, "-r")
	}
	text, said, _, err := v.machine.Program(ctx, stdin, v.path, append(args, script)...)
	outputs := strings.Split(text, mark)
	if len(outputs) <= len(commands) {
		return nil, said, errors.Join(fmt.Errorf("virsh answered %d of %d commands", max(len(outputs)-1, 0),
			len(commands)), err)
	}
	return outputs[:len(commands)], said, err
}

// Quoted is a word for virsh: all but the single quote stands for itself between single quotes.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// all asks for everything in one start of virsh: libvirt names the files of its guests after them, so their names are
// known beforehand. Where the files are not to be seen, or a guest is not among them, another start follows.
func (v Virsh) all(ctx context.Context) (found, error) {
	var names []string
	for _, folder := range []string{DefinedFolder, RunningFolder} {
		for _, file := range v.machine.List(folder) {
			if name, isXML := strings.CutSuffix(file, ".xml"); isXML && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var all found
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
			commands = append(commands, "dumpxml --inactive --domain "+Quoted(name), "dumpxml --domain "+Quoted(name))
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
		if !runs(guest.Running) {
			guest.Running = ""
		}
	}
	return all, nil
}

// trimXML is a document as dumpxml prints it, without the empty line behind it; empty where nothing was printed.
func trimXML(text string) string {
	if text = strings.TrimSpace(text); text != "" {
		text += "\n"
	}
	return text
}

// runs tells the definition of a running guest by its number, <domain type='kvm' id='1'>: dumpxml gives that of a guest
// that is shut off too.
func runs(text string) bool {
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
		if len(list) > 0 && threads.Scan(line, "state.state=", &n) && n < len(states) {
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
	command := "dumpxml --inactive --domain " + Quoted(guest)
	if secrets {
		command = "dumpxml --inactive --security-info --domain " + Quoted(guest)
	}
	return v.one(ctx, command)
}

func (v Virsh) running(ctx context.Context, guest string) (string, error) {
	text, err := v.one(ctx, "dumpxml --domain "+Quoted(guest))
	if err == nil && !runs(text) {
		return "", errNoGuest
	}
	return text, err
}

// one runs one command that prints something.
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
	return v.machine.ChangeOwned(ctx, text, v.path, "-q", "-c", "qemu:///system", "define", "--file",
		"/proc/self/fd/0")
}

// libvirtFiles reads the files in which libvirt's QEMU driver keeps its guests: definitions and the state of
// running ones.
type libvirtFiles struct{ machine *tree.Tree }

// secret is what libvirt writes into its files and shows to nobody who does not ask for it.
var secret = regexp.MustCompile(`\spasswd=('[^']*'|"[^"]*")`)

func (l libvirtFiles) all(context.Context) (found, error) {
	var all found
	at := map[string]int{}
	for _, folder := range []string{DefinedFolder, RunningFolder} {
		for _, file := range l.machine.List(folder) {
			name, isXML := strings.CutSuffix(file, ".xml")
			if !isXML {
				continue
			}
			text, err := l.machine.Read(folder + "/" + file)
			if err != nil {
				all.Unread = append(all.Unread, facts.Unseen{What: "guest " + name, Why: err.Error()})
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

// withoutHeader is a definition without the comment that libvirt puts before it, and without secrets.
func withoutHeader(text string) string {
	if at := strings.Index(text, "<domain"); at >= 0 {
		text = text[at:]
	}
	return secret.ReplaceAllString(text, "")
}

// parseStatus takes a status file apart: <domstatus state='running' …> holds the <domain>.
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
	text, err := l.machine.Read(DefinedFolder + "/" + guest + ".xml")
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoGuest
	}
	return withoutHeader(text), err
}

func (l libvirtFiles) running(_ context.Context, guest string) (string, error) {
	text, err := l.machine.Read(RunningFolder + "/" + guest + ".xml")
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoGuest
	}
	_, running := parseStatus(text)
	return running, err
}

func (l libvirtFiles) define(context.Context, string) error { return tree.ErrNotLive }

// ByFiles lists the guests by libvirt's own files, which takes no daemon.
func ByFiles(ctx context.Context, m *tree.Tree) (found, error) {
	return libvirtFiles{m}.all(ctx)
}
