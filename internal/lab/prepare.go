package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/owned"
)

// Tree is a built root tree of L1.
type Tree struct {
	Dir     string // version folder in the cache
	Release string // kernel release, as in /lib/modules
	QEMU    string // first line of qemu --version
}

// Root returns L1's root folder.
func (t *Tree) Root() string { return filepath.Join(t.Dir, "root") }

// Kernel returns the path of L1's kernel image.
func (t *Tree) Kernel() string { return filepath.Join(t.Dir, "vmlinuz") }

// stamp is written last: a folder without it is not a complete tree.
const stamp = "stamp.json"

func treeDir(cache string) string { return filepath.Join(cache, "tree-"+digest()) }

// buildLock is the lock under which a process builds a tree or something in it.
func buildLock(cache string) string { return filepath.Join(cache, "lock") }

// OpenTree returns the tree of this program's recipe if it has been built.
func OpenTree(cache string) (*Tree, error) {
	t, err := readTree(treeDir(cache))
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// check returns an error that is fs.ErrNotExist if the tree was damaged and lacks what boots L1.
func (t *Tree) check() error {
	for _, file := range append(t.loader("usr/bin/qemu-system-x86_64"), t.loader("usr/libexec/virtiofsd")[3],
		t.Kernel()) {
		if !filepath.IsAbs(file) {
			continue // an option
		}
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("lab: the root tree is damaged: %w", err)
		}
	}
	return nil
}

func readTree(dir string) (*Tree, error) {
	b, err := os.ReadFile(filepath.Join(dir, stamp))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("lab: no root tree in %s: %w", filepath.Dir(dir), fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	t := &Tree{}
	if err := json.Unmarshal(b, t); err != nil || t.Release == "" { // cut off by a power cut
		return nil, fmt.Errorf("lab: the root tree is damaged: %s: %w", filepath.Join(dir, stamp), fs.ErrNotExist)
	}
	t.Dir = dir
	return t, nil
}

// Prepare builds L1's root tree unless it is cached: about 60 s with a nearby mirror. The build happens in a temporary
// folder that becomes the tree by one rename. An interrupted build only leaves that folder (removed by the next one)
// and fetched packages. Mounts are in a mount namespace of the build's own processes and end with them. One process
// builds, others wait.
func Prepare(ctx context.Context, progress func(string)) (*Tree, error) {
	if progress == nil {
		progress = func(string) {}
	}
	t, err := prepare(ctx, progress)
	if err != nil {
		return nil, err
	}
	if version, old := t.outdated(); old {
		progress("lab: hosts that QEMU " + version + " emulates die now and then; backports have a newer one,")
		progress("lab: which this mirror lacks: 'mpps-lab clean', then MPPS_LAB_MIRROR=URL for another")
	}
	return t, nil
}

// soundQEMU is the first major version of QEMU whose emulated hosts do not die while they boot (docs/benchmarks.md).
const soundQEMU = 11

// outdated returns the version of the tree's QEMU, and whether it is older than soundQEMU.
func (t *Tree) outdated() (version string, old bool) {
	var major int
	if _, err := fmt.Sscanf(t.QEMU, "QEMU emulator version %s", &version); err != nil {
		return "", false
	}
	_, err := fmt.Sscanf(version, "%d.", &major)
	return version, err == nil && major < soundQEMU
}

func prepare(ctx context.Context, progress func(string)) (*Tree, error) {
	cache := Dir()
	if err := checkCache(cache); err != nil {
		return nil, err
	}
	if t, err := OpenTree(cache); !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := checkNeeds(); err != nil {
		return nil, err
	}
	if err := makeCache(cache); err != nil {
		return nil, err
	}
	unlock, err := lockFile(ctx, buildLock(cache),
		func() { progress("waiting: another process builds the lab") })
	if err != nil {
		return nil, err
	}
	defer unlock()
	if t, err := OpenTree(cache); err == nil {
		return t, nil // built while we waited
	}
	if err := removeGlob(filepath.Join(cache, `build[\-.]*`)); err != nil {
		return nil, err
	}
	if err := checkDisk(cache); err != nil {
		return nil, err
	}
	if err := checkNamespaces(ctx); err != nil {
		return nil, err
	}
	uri, err := findMirror("/")
	if err != nil {
		return nil, err
	}
	if err := checkMirror(ctx, uri, aptProxies(ctx)); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, err
	}
	b := &builder{mirror: uri, debs: filepath.Join(cache, "debs"), tree: &Tree{Dir: tmp}, progress: progress}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(treeDir(cache)); err != nil { // one that is damaged or has no stamp
		return nil, err
	}
	if err := os.Rename(tmp, treeDir(cache)); err != nil {
		return nil, err
	}
	if err := removeOldTrees(cache); err != nil {
		return nil, err
	}
	return OpenTree(cache)
}

// removeOldTrees removes trees of other recipes that no lab uses.
func removeOldTrees(cache string) error {
	dirs, err := filepath.Glob(filepath.Join(cache, "tree-*"))
	if err != nil {
		return err
	}
	used := map[string]bool{treeDir(cache): true}
	infos, err := List()
	if err != nil {
		return err
	}
	for _, i := range infos {
		if s, err := readState(i.Name); err == nil {
			used[s.Tree] = true
		}
	}
	var errs []error
	for _, d := range dirs {
		if !used[d] {
			errs = append(errs, os.RemoveAll(d))
		}
	}
	return errors.Join(errs...)
}

type builder struct {
	mirror   string
	debs     string // packages fetched so far, which speed up the next build
	tree     *Tree
	progress func(string)
}

func (b *builder) build(ctx context.Context) error {
	root := b.tree.Root()
	for _, d := range []string{filepath.Join(b.debs, "partial"), root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	steps := []struct {
		title string
		do    func(context.Context) error
	}{
		{"base system (debootstrap " + suite + ")", b.debootstrap},
		{fmt.Sprintf("kernel, QEMU, libvirt, tools (%d packages and what they need)", len(packages)), b.install},
		{"init scripts, boot menu, kernel image, check", b.finish},
	}
	start := time.Now()
	for i, s := range steps {
		b.progress(fmt.Sprintf("lab tree %d/%d: %s", i+1, len(steps), s.title))
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("lab: %s: %w", s.title, err)
		}
	}
	b.progress(fmt.Sprintf("lab tree built in %.0f s", time.Since(start).Seconds()))
	return nil
}

// debootstrap fetches the base system. The packages' scripts run as root on L0: without the check, debootstrap only
// warns where L0 lacks Debian's keys, and then believes everyone on the way to the mirror.
func (b *builder) debootstrap(ctx context.Context) error {
	return b.runIsolated(ctx, "debootstrap", "--variant=minbase", "--force-check-gpg", "--cache-dir="+b.debs, suite,
		b.tree.Root(), b.mirror)
}

func (b *builder) install(ctx context.Context) error {
	conf := filepath.Join(b.tree.Root(), "etc/apt/apt.conf.d/99lab")
	if err := os.WriteFile(conf, []byte(aptConf), 0o644); err != nil {
		return err
	}
	argv := append([]string{"sh", "-c", installScript, "install.sh"}, packages...)
	return b.runInTree(ctx, argv...)
}

func (b *builder) finish(ctx context.Context) error {
	root := b.tree.Root()
	if err := writeRoot(root); err != nil {
		return err
	}
	if err := b.runInTree(ctx, "update-grub"); err != nil {
		return err
	}
	vers, err := os.ReadDir(filepath.Join(root, "usr/lib/modules"))
	if err != nil {
		return err
	}
	if len(vers) != 1 {
		return fmt.Errorf("found %d kernels in /usr/lib/modules, want 1", len(vers))
	}
	b.tree.Release = vers[0].Name()
	if err := copyFile(filepath.Join(root, "boot/vmlinuz-"+b.tree.Release), b.tree.Kernel(), 0o644); err != nil {
		return err
	}
	argv, env := b.tree.qemu()
	out, err := output(ctx, env, append(argv, "--version")...)
	if err != nil {
		return err
	}
	b.tree.QEMU, _, _ = strings.Cut(out, "\n")
	if _, err := output(ctx, env, append(argv, "-device", "igb,help")...); err != nil {
		return fmt.Errorf("QEMU lacks the igb device: %w", err)
	}
	data, err := json.Marshal(b.tree)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.tree.Dir, stamp), data, 0o644)
}

// runInTree runs a program with the tree as its root, with /proc and /dev mounted.
func (b *builder) runInTree(ctx context.Context, argv ...string) error {
	certs := ""
	if strings.HasPrefix(b.mirror, "https:") {
		certs = "/etc/ssl/certs"
	}
	return b.runIsolated(ctx, append([]string{"sh", "-c", enterScript, "enter.sh", b.tree.Root(), b.debs, certs},
		argv...)...)
}

// runIsolated runs a program in mount and PID namespaces of its own, so that its mounts and processes end with it, even
// if this program is killed.
func (b *builder) runIsolated(ctx context.Context, argv ...string) error {
	argv = append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}, argv...)
	cmd := exec.CommandContext(ctx, "unshare", argv...)
	cmd.Env = append(os.Environ(), aptProxies(ctx)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = 5 * time.Second
	if err := owned.Run(cmd); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return b.failed(err, log.Bytes())
	}
	return nil
}

// buildLog, in the cache, has the output of the program that failed in the last build.
const buildLog = "build.log"

// failed returns a program's failure with the last line of its output, and writes all of the output to buildLog.
func (b *builder) failed(err error, printed []byte) error {
	log := filepath.Join(filepath.Dir(b.debs), buildLog)
	if werr := os.WriteFile(log, printed, 0o644); werr != nil { // a full disk, which is why the build failed
		log = "lost: " + werr.Error()
	}
	return advise(fmt.Errorf("%w: %s", err, strings.TrimSpace(tail(string(printed), 1))),
		"all that it printed: "+log+"; another package mirror: MPPS_LAB_MIRROR=URL")
}

// aptProxies returns apt's proxy settings as variables for debootstrap and for apt inside the tree.
func aptProxies(ctx context.Context) []string {
	var env []string
	for _, scheme := range []string{"http", "https"} {
		out, err := output(ctx, nil, "apt-config", "shell", "V", "Acquire::"+scheme+"::Proxy")
		if err != nil {
			continue
		}
		v := strings.TrimSpace(strings.TrimPrefix(out, "V="))
		if v = strings.Trim(v, "'"); v != "" && v != "DIRECT" {
			env = append(env, scheme+"_proxy="+v)
		}
	}
	return env
}

func removeGlob(pattern string) error {
	m, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range m {
		errs = append(errs, os.RemoveAll(d))
	}
	return errors.Join(errs...)
}

// copyFile replaces dst atomically. Anything but a regular file, such as /dev/null or a pipe, is written in place.
func copyFile(src, dst string, mode fs.FileMode) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	if info, err := os.Stat(dst); err == nil && !info.Mode().IsRegular() {
		out, err := os.OpenFile(dst, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	}
	out, err := os.CreateTemp(filepath.Dir(dst), ".copy-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), dst)
}

// output runs a program of L0 and returns its standard output; the error includes the end of its standard error.
func output(ctx context.Context, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	if err := owned.Run(cmd); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", filepath.Base(argv[0]), err,
			strings.TrimSpace(tail(errb.String(), 5)))
	}
	return out.String(), nil
}

// tail returns the last n lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
