//go:build faults

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/lab/labtest"
	"mpps/internal/machine"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("MPPS_VICTIM"); mode != "" {
		at, err := strconv.Atoi(os.Getenv("MPPS_VICTIM_DIES"))
		if err != nil {
			panic(err)
		}
		os.Exit(victim(mode, os.Getenv("MPPS_VICTIM_ROOT"), os.Getenv("MPPS_VICTIM_PLAN"), at))
	}
	os.Exit(concluded(labtest.Main(m)))
}

// planned is how many values a plan of these tests writes, beside the files that make them last.
const planned = 80

// machineFiles is a machine below a directory: 60 kernel parameters, 20 masks of queues, systemd's directories.
func machineFiles() map[string]string {
	files := map[string]string{
		"proc/sys/kernel/hostname": "box\n", "proc/sys/kernel/random/boot_id": "6ab6f1b4-0000-4000-8000-000000000001\n",
		"run/systemd/system/none": "", "etc/sysctl.d/10-network.conf": "net.core.v00 = 1\n",
		"etc/systemd/system/other.service":           "[Unit]\n",
		"usr/lib/systemd/system/" + lasting.UnitName: "[Unit]\n",
	}
	for i := range planned {
		files[strings.TrimSuffix(valueFile(i), "\n")] = "1\n"
	}
	return files
}

func valueFile(i int) string {
	if i < 60 {
		return fmt.Sprintf("proc/sys/net/core/v%02d", i)
	}
	return fmt.Sprintf("sys/class/net/br0/queues/tx-%d/xps_cpus", i-60)
}

func address(i int) setting.Address {
	if i < 60 {
		return setting.Of(setting.Sysctl, fmt.Sprintf("net.core.v%02d", i))
	}
	return setting.Of(setting.SysfsCPUs, strings.TrimPrefix(valueFile(i), "sys/"))
}

func makeTree(t *testing.T, root string) {
	t.Helper()
	for name, text := range machineFiles() {
		name = filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

// contents is every file below a root with its mode and every link and directory; journal and lock are not part of it,
// and neither is the directory of mpps itself.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case short == journal.Path || short == "run/mpps":
			return fs.SkipDir
		case short == "var" || short == "var/lib" || short == "var/lib/mpps":
			return nil
		case d.IsDir():
			all[short] = "directory"
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			all[short] = "link to " + target
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		all[short] = info.Mode().String() + " " + string(text)
		return err
	}))
	return all
}

// differences names what is not as before; what was not there before is a leftover.
func differences(before, after map[string]string) []string {
	var all []string
	for name, text := range before {
		if after[name] != text {
			all = append(all, fmt.Sprintf("%s is %q, was %q", name, after[name], text))
		}
	}
	return all
}

// added names what was not there before.
func added(before, after map[string]string) []string {
	var all []string
	for name := range after {
		if _, there := before[name]; !there {
			all = append(all, name)
		}
	}
	return all
}

// makePlan plans all values of a tree with what makes them last.
func makePlan(t *testing.T, root string) *plan.Plan {
	t.Helper()
	m := must.Get(machine.Open(root))(t)
	defer m.Close()
	var catalogue []*knob.Knob
	var addresses []setting.Address
	for i := range planned {
		a := address(i)
		addresses = append(addresses, a)
		catalogue = append(catalogue, &knob.Knob{
			ID: fmt.Sprintf("test.v%02d", i), Title: "a value", Stage: datapath.Softirq, Risk: goal.None,
			Tiers: goal.Tiers(),
			Where: func(*facts.Host) []setting.Address { return []setting.Address{a} },
			Want: func(*knob.View, setting.Address) knob.Advice {
				return knob.Wants(setting.Exact("2"), "the test wants it")
			},
		})
	}
	h := m.Inventory(t.Context())
	machine.Read(t.Context(), m.Mechanisms(), h, append(addresses, lasting.Addresses()...))
	p, err := plan.Make(h, goal.Unlimited(), catalogue, nil)
	if err == nil {
		err = lasting.Add(p, h)
	}
	must.Need(t, err == nil && len(p.Changes) >= planned+3,
		"%v, %v: expected %d changes and what makes them last", p, err, planned)
	return p
}

func writePlan(t *testing.T, p *plan.Plan) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, plan.Encode(&text, p))
	name := filepath.Join(t.TempDir(), "plan.json")
	must.Do(t, os.WriteFile(name, text.Bytes(), 0o644))
	return name
}

// engine is the one of the program, on a tree.
func engine(root string) (*apply.Engine, func() error, error) {
	m, err := machine.Open(root)
	if err != nil {
		return nil, nil, err
	}
	j, err := journal.Open(root)
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	name, boot := m.Identity()
	return &apply.Engine{Mechanisms: m.Mechanisms(), Journal: j, Host: name, BootID: boot, Version: "test"},
		func() error { return errors.Join(j.Close(), m.Close()) }, nil
}

// deadly dies before and after every write.
type deadly struct {
	setting.Mechanism
	dies   func()
	refuse setting.Address // a write of "2" to it is refused
}

func (d deadly) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	d.dies()
	if a == d.refuse && to.Value == "2" {
		return syscall.EINVAL
	}
	err := d.Mechanism.Write(ctx, a, to)
	d.dies()
	return err
}

// Tidy is that of the mechanism, where it has one.
func (d deadly) Tidy(ctx context.Context, a setting.Address) error {
	if t, able := d.Mechanism.(interface {
		Tidy(context.Context, setting.Address) error
	}); able {
		return t.Tidy(ctx, a)
	}
	return nil
}

// victim is this program as another process, which kills itself at a point: every record of the journal, and before and
// after every write.
func victim(mode, root, file string, at int) int {
	passed := 0
	dies := func() {
		if passed++; passed == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Minute)
		}
	}
	e, closed, err := engine(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	defer closed()
	var refuse setting.Address
	if mode == "failing" {
		refuse = address(planned - 1)
	}
	all := setting.Mechanisms{}
	for kind, m := range maps.All(e.Mechanisms) {
		all[kind] = deadly{m, dies, refuse}
	}
	e.Mechanisms = all
	e.Journal.Appended = func(string, journal.Record) { dies() }
	switch mode {
	case "apply", "failing":
		var f *os.File
		var p *plan.Plan
		if f, err = os.Open(file); err == nil {
			if p, err = plan.Decode(f); err == nil {
				_, err = e.Run(context.Background(), p, apply.Options{})
			}
		}
	case "rollback":
		_, err = e.Rollback(context.Background(), apply.RollbackOptions{})
	}
	var failure *apply.Failure
	if mode == "failing" && errors.As(err, &failure) && errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}
