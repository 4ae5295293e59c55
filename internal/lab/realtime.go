package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Realtime says whether L1 also has Debian's PREEMPT_RT kernel (linux-image-rt-amd64), and which of the two its boot
// menu boots. Emulated CPUs then pretend to be VMware's, so that the kernel trusts their TSC: kvm_amd of a PREEMPT_RT
// kernel requires an invariant TSC, which TCG does not offer.
type Realtime string

const (
	RealtimeInstalled Realtime = "installed" // the usual kernel is the default; the other is in the menu
	RealtimeBooted    Realtime = "booted"    // it is the default, as Debian's package leaves it
)

// layer is the overlay on the tree for Realtime: kernel, modules, boot menu and dpkg's records of them. The first lab
// that needs it builds it, in a folder of its tree, and it is removed with the tree.
type layer struct {
	dir     string
	Release string // kernel release, as in /lib/modules
}

// Parts of a layer: what L1 always has, and the boot menu with the realtime kernel first.
const (
	layerAll   = "all"
	layerFirst = "first"
)

//go:embed realtime.sh
var realtimeScript string

//go:embed realtime-inside.sh
var realtimeInside string

func (t *Tree) layerDir() string {
	sum := sha256.Sum256([]byte(realtimeScript + realtimeInside))
	return filepath.Join(t.Dir, "realtime-"+hex.EncodeToString(sum[:])[:12])
}

// openLayer returns the tree's layer if it has been built.
func (t *Tree) openLayer() (*layer, error) {
	dir := t.layerDir()
	b, err := os.ReadFile(filepath.Join(dir, stamp))
	if err != nil {
		return nil, err
	}
	y := &layer{dir: dir}
	if err := json.Unmarshal(b, y); err != nil {
		return nil, fmt.Errorf("lab: %s: %w", filepath.Join(dir, stamp), err)
	}
	return y, nil
}

// prepareLayer builds the layer unless it exists: 15 to 30 s, and 110 MB of packages the first time.
func (t *Tree) prepareLayer(ctx context.Context, progress func(string)) (*layer, error) {
	if y, err := t.openLayer(); !errors.Is(err, fs.ErrNotExist) {
		return y, err
	}
	cache := filepath.Dir(t.Dir)
	unlock, err := lockFile(ctx, buildLock(cache),
		func() { progress("waiting: another process builds the lab") })
	if err != nil {
		return nil, err
	}
	defer unlock()
	if y, err := t.openLayer(); !errors.Is(err, fs.ErrNotExist) {
		return y, err // built while we waited
	}
	if err := removeGlob(filepath.Join(t.Dir, "build-*")); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(t.Dir, "build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	progress("realtime kernel of the lab (linux-image-rt-amd64)")
	began := time.Now()
	b := &builder{debs: filepath.Join(cache, "debs"), tree: t, progress: progress}
	if err := b.runIsolated(ctx, "sh", "-c", realtimeScript, "realtime.sh", t.Root(), b.debs, work,
		realtimeInside); err != nil {
		return nil, advise(fmt.Errorf("lab: realtime kernel: %w", err), "it is fetched from Debian's mirror; a lab "+
			"without --realtime needs none")
	}
	y, err := stampLayer(filepath.Join(work, "layer"))
	if err != nil {
		return nil, err
	}
	if err := os.Rename(y.dir, t.layerDir()); err != nil {
		return nil, err
	}
	progress(fmt.Sprintf("realtime kernel %s built in %.0f s", y.Release, time.Since(began).Seconds()))
	return t.openLayer()
}

// stampLayer checks that a built layer is complete, and stamps it.
func stampLayer(dir string) (*layer, error) {
	kernels, err := filepath.Glob(filepath.Join(dir, layerAll, "boot/vmlinuz-*"))
	if err != nil {
		return nil, err
	}
	if len(kernels) != 1 {
		return nil, fmt.Errorf("lab: realtime kernel: found %d kernels, want 1", len(kernels))
	}
	y := &layer{dir: dir, Release: strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")}
	for _, name := range []string{y.modules() + "/modules.dep", filepath.Join(dir, layerFirst, grubConfig),
		filepath.Join(dir, layerAll, grubConfig)} {
		if _, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("lab: realtime kernel: %w", err)
		}
	}
	data, err := json.Marshal(y)
	if err != nil {
		return nil, err
	}
	return y, os.WriteFile(filepath.Join(dir, stamp), data, 0o644)
}

// kernel returns the image that QEMU loads.
func (y *layer) kernel() string { return filepath.Join(y.root(), "boot/vmlinuz-"+y.Release) }

// root returns the folder with the kernel's /lib/modules.
func (y *layer) root() string { return filepath.Join(y.dir, layerAll) }

func (y *layer) modules() string { return filepath.Join(y.root(), "usr/lib/modules", y.Release) }

// over lists the parts laid over the tree, uppermost first.
func (r Realtime) over() []string {
	switch r {
	case RealtimeInstalled:
		return []string{layerAll}
	case RealtimeBooted:
		return []string{layerFirst, layerAll}
	}
	return nil
}

// overDir returns the folder that L1 mounts as "labover", empty without a layer.
func (l *Lab) overDir() string {
	if l.over == nil {
		return ""
	}
	return l.over.dir
}

// image returns the kernel image for a release that menu returned.
func (l *Lab) image(release string) string {
	if l.over != nil && release == l.over.Release {
		return l.over.kernel()
	}
	return l.tree.Kernel()
}

// realtimeKernel is the image in the share for guests; a lab without Realtime can boot them with it too.
const realtimeKernel = ".guests/vmlinuz-realtime"

// guestLayer returns the layer whose kernel and modules a guest boots, and puts its image into the share.
func (l *Lab) guestLayer(ctx context.Context) (*layer, error) {
	over := l.over
	if over == nil {
		var err error
		if over, err = l.tree.prepareLayer(ctx, l.log); err != nil {
			return nil, err
		}
	}
	return over, copyFile(over.kernel(), filepath.Join(l.ShareDir(), realtimeKernel), 0o644)
}
