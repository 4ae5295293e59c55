package inside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/irq"
	"mpps/internal/machine/kernel"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// hangMemory is how long an agent that did not reply is not asked again.
const hangMemory = 10 * time.Second

// hang is when a guest's agent last hung, with the reason.
type hang struct {
	at  time.Time
	why error
}

// noteHang notes an agent that hangs and returns err.
func (in *Guests) noteHang(guest string, err error) error {
	if errors.Is(err, libvirt.ErrAgentHangs) {
		in.hung.Store(guest, hang{time.Now(), libvirt.ErrAgentHangs})
	}
	return err
}

// ask returns the way to a guest's agent, or an error if it cannot be reached.
func (in *Guests) ask(guest string) (libvirt.Agents, error) {
	if !in.tree.Live() && in.agents == nil {
		return nil, tree.ErrNotLive
	}
	if err := libvirt.Unreachable(in.tree, guest); err != nil {
		return nil, err
	}
	if since, known := in.hung.Load(guest); known {
		if s, ok := since.(hang); ok && time.Since(s.at) < hangMemory {
			return nil, s.why
		}
	}
	if in.agents != nil {
		return in.agents, nil
	}
	l, err := libvirt.Open(in.tree)
	if err != nil {
		return nil, err
	}
	a, able := l.(libvirt.Agents)
	if !able {
		return nil, tree.ErrNotLive
	}
	return a, nil
}

// Read reads one value.
func (in *Guests) Read(ctx context.Context, a setting.Address) setting.Reading {
	return in.ReadAll(ctx, []setting.Address{a})[0]
}

// ReadAll reads several values of one guest in about the time of one.
func (in *Guests) ReadAll(ctx context.Context, all []setting.Address) []setting.Reading {
	readings := make([]setting.Reading, len(all))
	for i, a := range all {
		readings[i] = setting.CouldNotTell("guest " + a.Object() + ": not read")
	}
	if len(all) == 0 {
		return readings
	}
	guest := all[0].Object()
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	look, err := in.look(ctx, guest, all)
	for i := range all {
		switch {
		case all[i].Object() != guest:
		case errors.Is(err, libvirt.ErrNotRunning):
			readings[i] = setting.NoObject(fmt.Sprintf("guest %s does not run: what was set inside it has gone with it",
				guest))
		case err != nil:
			readings[i] = setting.CouldNotTell(fmt.Sprintf("guest %s: %v", guest, in.noteHang(guest, err)))
		default:
			readings[i] = look.reading(ctx, all[i])
		}
	}
	return readings
}

// valueLook is one reading of some values of a guest.
type valueLook struct {
	tree  *guestTree                         // the files
	ran   map[setting.Address]libvirt.Result // of values that a program tells
	wrong map[setting.Address]error
}

// look fetches the files and runs the programs that the values need.
func (in *Guests) look(ctx context.Context, guest string, all []setting.Address) (*valueLook, error) {
	a, err := in.ask(guest)
	if err != nil {
		return nil, err
	}
	l := &valueLook{
		tree: newGuestTree(ctx), ran: map[setting.Address]libvirt.Result{}, wrong: map[setting.Address]error{},
	}
	var files []string
	var programs []libvirt.Call
	var whose []setting.Address
	interrupts := false
	for _, at := range all {
		inner, err := at.Inner()
		if err != nil {
			l.wrong[at] = err
			continue
		}
		file, argv, err := sourceOf(inner)
		switch {
		case err != nil:
			l.wrong[at] = err
		case inner.Kind == setting.IRQAffinity:
			interrupts = true
		case file != "":
			files = append(files, file)
		default:
			programs, whose = append(programs, libvirt.Call{Argv: argv}), append(whose, at)
		}
	}
	grep := len(programs)
	if len(files) > 0 {
		programs = append(programs, libvirt.Call{Argv: append([]string{"grep", "-Ha", ""}, files...)})
	}
	links := len(programs)
	if interrupts {
		programs = append(programs, nicPrograms()...)
		programs = append(programs, libvirt.Call{Argv: []string{"grep", "-rHsa", "", "/proc/irq"}})
	}
	if len(programs) == 0 {
		return l, nil
	}
	results, err := libvirt.Execute(ctx, a, guest, programs...)
	if err != nil {
		return nil, err
	}
	for i, at := range whose {
		l.ran[at] = results[i]
	}
	for _, r := range results[grep:] {
		if r.Failed != nil {
			return nil, r.Failed
		}
	}
	if interrupts {
		err = errors.Join(l.tree.addLinks(results[links].Out), l.tree.addFiles(results[links+1].Out),
			l.tree.addDirs(results[links+2].Out), l.tree.addFiles(results[links+3].Out))
	}
	if len(files) > 0 {
		err = errors.Join(err, l.tree.addFiles(results[grep].Out), l.tree.noteMissing(files, results[grep].Err))
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// sourceOf returns the file of a value in a guest, or the program that prints it.
func sourceOf(inner setting.Address) (file string, argv []string, err error) {
	under := func(folder, name string) (string, []string, error) {
		file := folder + "/" + name
		if path.Clean(file) != file || !strings.HasPrefix(file, folder+"/") {
			return "", nil, fmt.Errorf("%s: expected a path below %s", inner, folder)
		}
		return file, nil, nil
	}
	switch inner.Kind {
	case setting.Sysctl:
		return under("/"+tree.ProcSys, setting.SysctlPath(inner.Path))
	case setting.Sysfs, setting.SysfsCPUs:
		return under("/"+tree.Sys, inner.Path)
	case setting.Swap:
		return "/" + kernel.ProcSwaps, nil, nil
	case setting.IRQAffinity:
		return "", nil, nil
	case setting.NICChannels:
		if !plainName(inner.Object()) || inner.Rest() != "combined" {
			return "", nil, fmt.Errorf("%s: expected NIC/combined", inner)
		}
		return "", []string{"ethtool", "-l", inner.Object()}, nil
	case setting.Service:
		if err := systemd.ServiceName(inner.Path); err != nil {
			return "", nil, err
		}
		return "", []string{"systemctl", "show", "--property=LoadState,ActiveState", "--", inner.Path + ".service"}, nil
	}
	return "", nil, fmt.Errorf("%s: values of this kind are not read inside a guest", inner)
}

// reading returns the reading of one address.
func (l *valueLook) reading(ctx context.Context, a setting.Address) setting.Reading {
	if err := l.wrong[a]; err != nil {
		return setting.CouldNotTell(err.Error())
	}
	inner, err := a.Inner()
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	if r, ran := l.ran[a]; ran {
		return programReading(inner, r)
	}
	if file, _, err := sourceOf(inner); err == nil && l.tree.denied[file] != "" {
		return setting.CouldNotTell(file + " in the guest: " + l.tree.denied[file])
	}
	t := l.tree.Tree("guest " + a.Object())
	if inner.Kind == setting.Swap {
		text, _ := t.Read(kernel.ProcSwaps)
		return swapReading(inner, text)
	}
	mechanisms := kernel.Mechanisms(t)
	maps.Copy(mechanisms, irq.Mechanisms(t))
	return mechanisms.Read(ctx, inner)
}

// programReading returns the reading in the output of ethtool or systemctl.
func programReading(inner setting.Address, r libvirt.Result) setting.Reading {
	if inner.Kind == setting.Service {
		if r.Failed != nil {
			return setting.Reading{State: setting.Absent, Why: "systemd is not the init system there",
				Unsupported: true}
		}
		if err := r.Problem(); err != nil {
			return setting.CouldNotTell(err.Error())
		}
		return systemd.UnitState(r.Out, inner.Path)
	}
	if err := r.Problem(); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	c := parseChannels(r.Out)
	if c == nil {
		return setting.CouldNotTell("ethtool in the guest prints what is not known here")
	}
	reading := setting.Value(strconv.Itoa(c.Combined))
	least, most := int64(1), int64(c.MaxCombined)
	reading.Min, reading.Max = &least, &most
	return reading
}

// swapReading returns the state of a swap area in a guest's /proc/swaps.
func swapReading(inner setting.Address, text string) setting.Reading {
	for _, area := range kernel.ParseSwaps(text) {
		switch {
		case area.Name != "/"+inner.Path:
		case area.Priority >= 0:
			return setting.Value("on " + strconv.Itoa(area.Priority))
		default:
			return setting.Value("on")
		}
	}
	return setting.Value("off")
}
