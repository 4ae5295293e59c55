// Package making makes guests for a measurement and removes them: without a disk and a persistent definition, with this
// host's kernel and mpps itself as their init.
package making

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/guestinit"
	"mpps/internal/initramfs"
	"mpps/internal/machine"
	"mpps/internal/machine/libvirt"
	"mpps/internal/measure/traffic/engine"
	"mpps/internal/model/domain"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// folder has a directory for each run that makes guests, and the lock of the run that may have one. It is gone after a
// reboot, as are guests without a persistent definition.
const folder = "/run/mpps-guests"

// logs is where libvirt may write what guests print: elsewhere SELinux keeps virtlogd from it.
const logs = "/var/log/libvirt/qemu"

// Files in a run's directory, besides NAME.xml of each guest.
const (
	kernelFile = "kernel"
	initrdFile = "initrd"
)

// markOf is what the definitions of a run's guests are marked with: a guest without it is not mpps's, whatever its
// name.
func markOf(run string) *domain.Mark {
	return &domain.Mark{Namespace: "urn:mpps:made-guest:1", Name: "made", Fields: map[string]string{"run": run}}
}

// Guest describes a guest to make, with one NIC.
type Guest struct {
	Name, Bridge, Address string // the address with prefix length
	Model, Driver, Module string // of the NIC, and the kernel's module for it
	VCPUs                 int
	Memory                uint64 // bytes
}

// Room is where one run's guests are made. Only one run on a host has one.
type Room struct {
	env     *ops.Env
	machine *machine.Machine
	lock    *os.File
	run     string
	dir     string
	guests  *libvirt.Transient
}

// Open takes the host's only room, and removes what a killed run left in it.
func Open(ctx context.Context, env *ops.Env) (*Room, error) {
	if !env.Live() {
		return nil, outcome.Usage(errors.New("guests are made on the live machine alone"), "leave --root out")
	}
	if err := env.NeedsRoot("making guests"); err != nil {
		return nil, err
	}
	if err := makeFolder(folder); err != nil {
		return nil, outcome.Failed(err, "")
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, outcome.Failed(err, "")
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(outcome.Failed(fmt.Errorf("another mpps has made guests on this host: %w", err),
			"wait for its end"), lock.Close())
	}
	r := &Room{env: env, lock: lock}
	if r.machine, err = env.Open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := r.sweep(ctx); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

// sweep removes the directories of killed runs, and ends their guests that still run: those with the UUID in the
// directory and the mark of that run.
func (r *Room) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(folder, e.Name())
		definitions, err := filepath.Glob(filepath.Join(dir, "*.xml"))
		if err != nil {
			return err
		}
		for _, file := range definitions {
			if err := r.sweepGuest(ctx, file, e.Name()); err != nil {
				return outcome.Failed(fmt.Errorf("guest of a killed run (%s): %w", file, err),
					"'virsh list' shows it; 'virsh destroy' ends it")
			}
		}
		if err := remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a run's files.
func remove(dir string) error {
	definitions, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	for _, file := range definitions {
		gone := os.Remove(console(dir, strings.TrimSuffix(filepath.Base(file), ".xml")))
		if !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// makeFolder makes a directory that others may pass, whatever the umask is: QEMU runs as another user.
func makeFolder(name string) error {
	if err := os.Mkdir(name, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(name, 0o711)
}

func (r *Room) sweepGuest(ctx context.Context, file, run string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	doc, err := domain.Parse(text)
	if err != nil || doc.Guest().UUID == "" {
		return nil // killed while it was written: no guest was made from it
	}
	g := doc.Guest()
	other, err := libvirt.EndMarked(ctx, r.machine.Tree, g.UUID, *markOf(run))
	if other {
		r.env.Out.Step("guest %s is not the one that a killed run made, and is left alone", g.Name)
	}
	return err
}

// Make makes guests and starts them. They run an engine's server too, unless e is empty. They do not answer yet when it
// returns.
func (r *Room) Make(ctx context.Context, guests []Guest, secret string, e engine.Name) (err error) {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	r.run = hex.EncodeToString(random)
	r.dir = filepath.Join(folder, r.run)
	if err := makeFolder(r.dir); err != nil {
		return outcome.Failed(err, "")
	}
	if err := r.boot(ctx, guests, secret, e); err != nil {
		return outcome.Failed(fmt.Errorf("guests to boot: %w", err), outcome.HintOf(err, ""))
	}
	var files, uuids []string
	for i, g := range guests {
		file, uuid, err := r.define(g, random, i)
		if err != nil {
			return outcome.Failed(fmt.Errorf("guest %s: %w", g.Name, err), outcome.HintOf(err, ""))
		}
		files, uuids = append(files, file), append(uuids, uuid)
	}
	if r.guests, err = libvirt.CreateTransient(ctx, r.machine.Tree, files, uuids); err != nil {
		return outcome.Failed(err, "'journalctl -u libvirtd' has more; /var/log/libvirt/qemu is QEMU's own log")
	}
	return nil
}

// boot writes the kernel and the initramfs. libvirt gives both to the user that QEMU runs as, so they are copies.
func (r *Room) boot(ctx context.Context, guests []Guest, secret string, e engine.Name) error {
	release, err := release()
	if err != nil {
		return err
	}
	kernel, err := kernelOf(release)
	if err != nil {
		return err
	}
	if err := copyFile(kernel, filepath.Join(r.dir, kernelFile)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	servers, err := serversOf(e)
	if err != nil {
		return err
	}
	wanted := []string{bus}
	for _, g := range guests {
		wanted = append(wanted, g.Module)
	}
	return initramfs.Build(initramfs.Image{Init: self, ModulesDir: modulesDir(release), Modules: wanted,
		Unpack: func(file string) (string, error) { return unpack(ctx, r.machine.Tree, file) },
		More: func(w *initramfs.Writer) error {
			return errors.Join(w.Dir(filepath.Dir(guestinit.SecretFile)), w.Text(guestinit.SecretFile, secret, 0o600),
				w.Programs("/", servers))
		}}, filepath.Join(r.dir, initrdFile))
}

// define writes a guest's definition. Its MAC address and UUID follow from the run and the guest's number.
func (r *Room) define(g Guest, random []byte, n int) (file, uuid string, err error) {
	mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", random[0], random[1], n)
	uuid = fmt.Sprintf("%x-%x-4%03x-8%03x-%012x", random[:4], random[4:6], n, uint(random[6])<<4, uint(random[7]))
	doc, err := domain.Render(domain.Description{
		Name: g.Name, UUID: uuid, VCPUs: g.VCPUs, MemoryKiB: g.Memory >> 10, Mark: markOf(r.run),
		NICs:   []domain.NICDescription{{Bridge: g.Bridge, MAC: mac, Model: g.Model, Driver: g.Driver}},
		Kernel: filepath.Join(r.dir, kernelFile), Initrd: filepath.Join(r.dir, initrdFile),
		Arguments: strings.Join([]string{"console=ttyS0", "quiet", "panic=-1", "mpps.hostname=" + g.Name,
			"mpps.addr=" + mac + "=" + g.Address}, " "),
		Console: console(r.dir, g.Name),
	})
	if err != nil {
		return "", "", err
	}
	file = filepath.Join(r.dir, g.Name+".xml")
	return file, uuid, os.WriteFile(file, doc.Bytes(), 0o600)
}

// console returns the file with what a guest of a run prints.
func console(dir, guest string) string {
	return filepath.Join(logs, guest+"-"+filepath.Base(dir)+".console")
}

// LastWords returns the last line that a guest printed; empty if there is none.
func (r *Room) LastWords(guest string) string {
	text, err := os.ReadFile(console(r.dir, guest))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// leaving is how long it may take to end all guests.
const leaving = time.Minute

// Close ends the guests, also when ctx has ended, removes their files and gives the room back.
func (r *Room) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	var errs []error
	if r.guests != nil {
		errs = append(errs, r.guests.End(ctx))
	}
	if r.dir != "" && errors.Join(errs...) == nil { // the next run ends them by what stands there
		errs = append(errs, remove(r.dir))
	}
	if err := errors.Join(errs...); err != nil {
		errs = []error{outcome.Failed(fmt.Errorf("remove guests: %w", err), "the next 'mpps acceptance modes "+
			"--make-guests' removes them, and so does 'virsh destroy'")}
	}
	errs = append(errs, r.machine.Close(), r.lock.Close())
	return errors.Join(errs...)
}

// copyFile copies a file into a run's directory.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o644), out.Close()) // whatever the umask is
}

// release returns the release of the running kernel.
func release() (string, error) {
	var name unix.Utsname
	err := unix.Uname(&name)
	return unix.ByteSliceToString(name.Release[:]), err
}

// kernelOf returns the image of a kernel: in /boot, and beside the modules where the boot menu is systemd-boot's.
func kernelOf(release string) (string, error) {
	for _, name := range []string{"/boot/vmlinuz-" + release, filepath.Join(modulesDir(release), "vmlinuz")} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return name, f.Close()
	}
	return "", fmt.Errorf("there is no /boot/vmlinuz-%s", release)
}

func modulesDir(release string) string { return filepath.Join("/lib/modules", release) }
