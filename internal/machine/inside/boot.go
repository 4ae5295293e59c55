package inside

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"mpps/internal/machine/boot"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// A guest's boot loader is files like the host's. They are fetched with tar, since every byte counts when they are put
// back, and read and changed by package boot, whose writes and programs are run in the guest.

// bootPrograms are the programs that print what package boot reads of a guest.
var bootPrograms = []libvirt.Call{
	// 512 blocks are 256 KiB; drafts are ours; kernels, initramfs and modules of GRUB have other names
	{Argv: []string{"find", "/boot", "/efi", "-maxdepth", "4", "(", "-type", "f", "-o", "-type", "l", ")", "-size",
		"-512", "(", "-name", "grub.cfg", "-o", "-name", "grubenv", "-o", "-name", "*.conf", "-o", "-name", ".*.mpps*",
		")", "-exec", "tar", "-cf", "-", "{}", "+"}},
	{Argv: append([]string{"tar", "-cf", "-", "/var/lib/mpps/boot", "/etc/default/grub", "/etc/default/grub.d",
		"/etc/kernel/cmdline", "/etc/kernel/proxmox-boot-uuids", "/etc/zipl.conf", "/usr/sbin/grub-mkconfig",
		"/usr/sbin/grubby", "/sbin/grubby"}, loaderVariables...)},
	{Argv: []string{"ls", "-d", "/sys/firmware/efi"}},
	{Argv: []string{"find", "/boot/EFI/Linux", "/efi/EFI/Linux", "/boot/efi/EFI/Linux", "-maxdepth", "1", "-type",
		"f"}},
}

// bootPatience is how long a guest may take to tell of its boot loader beside everything else.
const bootPatience = 8 * time.Second

// runBoot runs bootPrograms. A guest that is too slow for them costs only what is known of its boot loader.
func runBoot(ctx context.Context, a libvirt.Agents, guest string) []libvirt.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, bootPatience, libvirt.ErrAgentHangs)
	defer cancel()
	results, err := libvirt.Execute(ctx, a, guest, bootPrograms...)
	if err != nil {
		return slices.Repeat([]libvirt.Result{{Failed: err}}, len(bootPrograms))
	}
	return results
}

// loaderVariables are the EFI variables of systemd-boot and systemd-stub (systemd.io/BOOT_LOADER_INTERFACE).
var loaderVariables = []string{efiVariable("LoaderInfo"), efiVariable("LoaderEntryDefault"),
	efiVariable("LoaderEntryOneShot"), efiVariable("StubInfo")}

func efiVariable(name string) string {
	return "/sys/firmware/efi/efivars/" + name + "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
}

// bootFolders are where the files of bootPrograms are.
var bootFolders = []string{"boot/", "efi/", "etc/default/", "etc/kernel/", "etc/zipl.conf", "usr/sbin/", "sbin/",
	"var/lib/mpps/boot", "sys/firmware/efi"}

// Limits of a guest's boot files: a menu of 50 kernels is 100 KiB, in some dozens of files.
const (
	maxBootFile  = 256 << 10
	maxBootFiles = 1000
)

// addBoot adds the output of bootPrograms to a tree. Programs that found nothing are no error.
func addBoot(m *tree.Memory, results []libvirt.Result) error {
	for _, r := range results {
		if r.Failed != nil {
			return r.Failed
		}
	}
	for _, r := range results[:2] {
		if err := addArchive(m, r.Out); err != nil {
			return err
		}
	}
	for i, add := range []func(name string) error{m.Dir, func(name string) error { return m.File(name, "") }} {
		for line := range strings.Lines(results[2+i].Out) { // the names alone
			if name, ok := bootName(strings.TrimSpace(line)); ok {
				if err := add(name); err != nil {
					return mismatch(err)
				}
			}
		}
	}
	return m.Err()
}

// bootName returns the name of a boot file in the tree, and whether it is below a folder that was asked for.
func bootName(name string) (string, bool) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	return name, slices.ContainsFunc(bootFolders, func(folder string) bool { return strings.HasPrefix(name, folder) })
}

// addArchive adds the files, directories and links of a tar archive.
func addArchive(m *tree.Memory, archive string) error {
	if archive == "" {
		return nil
	}
	from := tar.NewReader(strings.NewReader(archive))
	for range maxBootFiles {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("its tar prints what is no archive: %w", err)
		}
		name, ok := bootName(header.Name)
		switch {
		case !ok:
			return fmt.Errorf("it reports a file %.80q", header.Name)
		case header.Typeflag == tar.TypeDir:
			err = m.Dir(name)
		case header.Typeflag == tar.TypeSymlink:
			target := header.Linkname
			if path.IsAbs(target) {
				target = strings.Repeat("../", strings.Count(name, "/")) + strings.TrimPrefix(target, "/")
			}
			err = m.Link(name, target)
		case header.Typeflag == tar.TypeReg && header.Size <= maxBootFile:
			var text []byte
			if text, err = io.ReadAll(from); err == nil {
				err = m.File(name, string(text))
			}
		}
		if err != nil {
			return mismatch(err)
		}
	}
	return fmt.Errorf("it reports more than %d files of its boot loader", maxBootFiles)
}

// remote is a guest as the machine of a tree that package boot writes to.
type remote struct {
	agents libvirt.Agents
	guest  string
}

func (r remote) Run(ctx context.Context, stdin string, argv ...string) error {
	results, err := libvirt.Execute(ctx, r.agents, r.guest, libvirt.Call{Argv: argv, Stdin: stdin})
	switch {
	case err != nil:
		return err
	case results[0].Failed != nil && errors.Is(results[0].Failed, libvirt.ErrNotRunning): // its disk is still there
		return fmt.Errorf("%w: %w", setting.ErrInDoubt, results[0].Failed)
	}
	return results[0].Problem()
}

func (r remote) Fetch(ctx context.Context, into *tree.Memory) error {
	results, err := libvirt.Execute(ctx, r.agents, r.guest, bootPrograms...)
	if err != nil {
		return err
	}
	return addBoot(into, results)
}

// readBoot reads the boot loader of a guest from the output of bootPrograms.
func readBoot(ctx context.Context, guest string, results []libvirt.Result, h *facts.Host) {
	m := tree.NewMemory(ctx)
	t, err := m.Remote("guest "+guest, fetched(results))
	if err != nil {
		tree.AddUnseen(h, "boot loader", err)
		return
	}
	boot.Loader(t, h)
}

// fetched is a machine whose files were fetched already, and that is only read.
type fetched []libvirt.Result

func (f fetched) Run(context.Context, string, ...string) error     { return tree.ErrNotLive }
func (f fetched) Fetch(_ context.Context, into *tree.Memory) error { return addBoot(into, f) }

// Arguments is the mechanism of setting.GuestArg: kernel arguments of a guest's next boot.
func (in *Guests) Arguments() boot.Writer { return arguments{in} }

type arguments struct{ in *Guests }

// loader fetches the files of a guest's boot loader.
func (k arguments) loader(ctx context.Context, guest string) (boot.Writer, error) {
	a, err := k.in.ask(guest)
	if err != nil {
		return nil, err
	}
	t, err := tree.NewMemory(ctx).Remote("guest "+guest, remote{a, guest})
	if err != nil {
		return nil, k.in.noteHang(guest, err)
	}
	return boot.Arguments(t), nil
}

func (k arguments) Read(ctx context.Context, a setting.Address) setting.Reading {
	return k.ReadAll(ctx, []setting.Address{a})[0]
}

// ReadAll reads several arguments of one guest from one copy of its files.
func (k arguments) ReadAll(ctx context.Context, all []setting.Address) []setting.Reading {
	readings := make([]setting.Reading, len(all))
	if len(all) == 0 {
		return readings
	}
	guest := all[0].Object()
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	loader, err := k.loader(ctx, guest)
	for i, a := range all {
		switch {
		case errors.Is(err, libvirt.ErrNotRunning) && !k.in.tree.Exists(libvirt.DefinedFolder+"/"+guest+".xml"):
			readings[i] = setting.NoObject("there is no guest " + guest)
		case errors.Is(err, libvirt.ErrNotRunning):
			readings[i] = setting.CouldNotTell(fmt.Sprintf("guest %s does not run, and the files of its boot loader "+
				"are seen while it does: start it", guest))
		case err != nil:
			readings[i] = setting.CouldNotTell(fmt.Sprintf("guest %s: %v", guest, err))
		case a.Object() != guest:
			readings[i] = setting.CouldNotTell("guest " + a.Object() + ": not read")
		default:
			readings[i] = loader.Read(ctx, inGuest(a))
		}
	}
	return readings
}

// inGuest returns the address that an argument has in its guest.
func inGuest(a setting.Address) setting.Address { return setting.Of(setting.KernelArg, a.Rest()) }

func (k arguments) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return k.WriteAll(ctx, []setting.Assignment{{Address: a, To: to}})
}

// WriteAll changes the arguments of each guest in one change of its boot loader's files.
func (k arguments) WriteAll(ctx context.Context, all []setting.Assignment) error {
	for len(all) > 0 {
		guest := all[0].Address.Object()
		n := slices.IndexFunc(all, func(other setting.Assignment) bool { return other.Address.Object() != guest })
		if n < 0 {
			n = len(all)
		}
		var inner []setting.Assignment
		for _, one := range all[:n] {
			inner = append(inner, setting.Assignment{Address: inGuest(one.Address), To: one.To})
		}
		if err := k.write(ctx, guest, inner); err != nil {
			return tree.Refusal(all[0].Address, all[0].To.String(), fmt.Errorf("guest %s: %w", guest, err))
		}
		all = all[n:]
	}
	return nil
}

func (k arguments) write(ctx context.Context, guest string, all []setting.Assignment) error {
	loader, err := k.loader(ctx, guest)
	if err != nil {
		return err
	}
	if err := loader.WriteAll(ctx, all); err != nil {
		return k.in.noteHang(guest, err)
	}
	if a, err := k.in.ask(guest); err == nil { // the folder of our copies: another mpps there may have files in it
		_, _ = libvirt.Execute(ctx, a, guest, libvirt.Call{Argv: []string{"rmdir", "/var/lib/mpps"}})
	}
	return nil
}

// Tidy removes what interrupted changes have left behind.
func (k arguments) Tidy(ctx context.Context, a setting.Address) error {
	loader, err := k.loader(ctx, a.Object())
	if err != nil {
		return err
	}
	return loader.Tidy(ctx, inGuest(a))
}

// CommandLine returns the command line of a guest's running kernel.
func (in *Guests) CommandLine(ctx context.Context, guest string) (setting.CommandLine, error) {
	const file = "/proc/cmdline"
	texts, err := in.Files(ctx, guest, file)
	if err != nil {
		return nil, err
	}
	return setting.ParseCommandLine(texts[file]), nil
}
