package link

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	tc "github.com/vishvananda/netlink"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// rootQdisc reads and sets the root qdisc of a virtual device (setting.RootQdisc).
type rootQdisc struct{ m *tree.Tree }

var errNoQdisc = errors.New("no queueing discipline: it comes when the device is brought up")

// qdiscs are those of devices by index.
type qdiscs map[int][]tc.Qdisc

// listQdiscs returns those of all devices: the kernel lists no others (net/sched/sch_api.c, tc_dump_qdisc).
func listQdiscs() (qdiscs, error) {
	all, err := tc.QdiscList(nil)
	// Devices came or went meanwhile: the list may be incomplete.
	for try := 1; errors.Is(err, tc.ErrDumpInterrupted) && try < 5; try++ {
		all, err = tc.QdiscList(nil)
	}
	if err != nil {
		return nil, err
	}
	of := qdiscs{}
	for _, q := range all {
		of[q.Attrs().LinkIndex] = append(of[q.Attrs().LinkIndex], q)
	}
	return of, nil
}

// root returns the root qdisc of a device and its handle. The error is errNoQdisc for a device that was never up: the
// kernel shows none.
func (r rootQdisc) root(device string, of qdiscs) (q setting.Qdisc, handle uint32, err error) {
	all := of[r.m.Number(path.Join(tree.ClassNet, device, "ifindex"), 0)]
	found := false
	for _, one := range all {
		if a := one.Attrs(); a.Parent == tc.HANDLE_ROOT {
			found, handle = true, a.Handle
			q.Kind = one.Type()
		}
	}
	if !found {
		return q, 0, errNoQdisc
	}
	switch {
	case q.Kind == setting.NoQueue:
		return q, handle, nil
	case handle == 0:
		q.Default = true
	default:
		q.Handle = strconv.FormatUint(uint64(handle>>16), 16) + ":"
	}
	if q.Kind == "mq" {
		q.Each = defaultChild(all, handle)
	}
	return q, handle, nil
}

// defaultChild returns the kind of the default qdisc of mq's queues; empty if one of them was set by somebody. Those
// that the kernel sets have handle 0 (net/sched/sch_mq.c, mq_init).
func defaultChild(all []tc.Qdisc, root uint32) string {
	kind := ""
	for _, one := range all {
		a := one.Attrs()
		if a.Parent == tc.HANDLE_ROOT || a.Parent == tc.HANDLE_INGRESS || a.Parent>>16 != root>>16 {
			continue
		}
		if a.Handle != 0 || kind != "" && one.Type() != kind {
			return ""
		}
		kind = one.Type()
	}
	return kind
}

func (r rootQdisc) Read(_ context.Context, a setting.Address) setting.Reading {
	return r.ReadTogether([]setting.Address{a})[0]
}

// ReadTogether reads many with one list of the kernel's.
func (r rootQdisc) ReadTogether(all []setting.Address) []setting.Reading {
	var of qdiscs
	err := tree.ErrNotLive
	if r.m.Live() && len(all) > 0 {
		of, err = listQdiscs()
	}
	readings := make([]setting.Reading, len(all))
	for i, a := range all {
		readings[i] = r.read(a, of, err)
	}
	return readings
}

func (r rootQdisc) read(a setting.Address, of qdiscs, err error) setting.Reading {
	switch {
	case !r.m.Live():
		return setting.CouldNotTell(tree.ErrNotLive.Error())
	case !r.m.Exists(path.Join(tree.ClassNet, a.Path)):
		return setting.NoObject("there is no device " + a.Path)
	}
	var q setting.Qdisc
	if err == nil {
		q, _, err = r.root(a.Path, of)
	}
	switch {
	case errors.Is(err, errNoQdisc):
		return setting.Missing(err.Error())
	case err != nil:
		return tree.Unreadable(a.String(), err)
	}
	reading := setting.Value(q.String())
	if err := r.checkReplaceable(a.Path, q); err != nil {
		reading.ReadOnly, reading.Why = true, err.Error()
	}
	return reading
}

// checkReplaceable returns an error with the reason if a qdisc must not be replaced or could not be restored.
func (r rootQdisc) checkReplaceable(device string, q setting.Qdisc) error {
	if r.m.Exists(path.Join(tree.ClassNet, device, "device")) {
		return errors.New("a NIC's queueing discipline is left alone: its queues can be full")
	}
	if err := q.Restorable(); err != nil {
		return err
	}
	return r.checkDefault(q)
}

// checkDefault returns an error if the kernel would now choose another default qdisc. In a network namespace the sysctl
// is missing and nothing is checked.
func (r rootQdisc) checkDefault(q setting.Qdisc) error {
	now := strings.TrimSpace(r.m.Line("proc/sys/net/core/default_qdisc"))
	if kind := q.ByDefault(); kind != "" && now != "" && kind != now {
		return fmt.Errorf("the kernel's own choice was %s and now is %s (net.core.default_qdisc)", kind, now)
	}
	return nil
}

func (r rootQdisc) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return r.m.SetLive(ctx, a, to, func(value string) error { return r.set(a.Path, value) })
}

// set replaces the root qdisc.
func (r rootQdisc) set(device, value string) error {
	if !r.m.Exists(path.Join(tree.ClassNet, device)) {
		return errNoNIC
	}
	to, err := setting.ParseQdisc(value)
	if err != nil {
		return err
	}
	of, err := listQdiscs()
	if err != nil {
		return err
	}
	now, handle, err := r.root(device, of)
	switch {
	case err != nil && !errors.Is(err, errNoQdisc):
		return err
	case err == nil && now == to:
		return nil
	case err == nil:
		if err := r.checkReplaceable(device, now); err != nil {
			return err
		}
	}
	if err := r.checkReplaceable(device, to); err != nil {
		return err
	}
	index := r.m.Number(path.Join(tree.ClassNet, device, "ifindex"), 0)
	at := tc.QdiscAttrs{LinkIndex: index, Parent: tc.HANDLE_ROOT}
	replace := func(kind string, handle uint32) error {
		at := at
		at.Handle = handle
		return tc.QdiscReplace(&tc.GenericQdisc{QdiscAttrs: at, QdiscType: kind})
	}
	if !to.Default {
		wanted, _ := strconv.ParseUint(strings.TrimSuffix(to.Handle, ":"), 16, 16) // none: the kernel picks a free one
		return replace(to.Kind, uint32(wanted)<<16)
	}
	// Deleting a qdisc that was set brings back the kernel's default. The default itself cannot be deleted, as handle 0
	// names nothing: replace it first.
	if handle == 0 {
		if err := replace(setting.NoQueue, 0); err != nil {
			return err
		}
	}
	return tc.QdiscDel(&tc.GenericQdisc{QdiscAttrs: at})
}
