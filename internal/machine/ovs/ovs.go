package ovs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// Inventory reads Open vSwitch; nothing if the host has neither its database nor its datapath.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	if !Present(m) && !m.Exists(module) {
		return
	}
	o, cut, err := readDatabase(m)
	if err != nil {
		o = &facts.OpenVSwitch{Config: map[string]string{}, Bridges: []facts.OVSBridge{}}
		if Present(m) {
			tree.AddUnseen(h, "Open vSwitch's database", err)
		}
	}
	if cut > 0 {
		tree.Note(h, facts.Unseen{What: fmt.Sprintf("%d bridges, ports or interfaces of Open vSwitch", cut),
			Why: fmt.Sprintf("at most %d of each are read", maxRows)})
	}
	o.Datapaths, err = Datapaths(m)
	for i := range o.Datapaths {
		err = errors.Join(err, addPorts(m, &o.Datapaths[i]))
	}
	if err != nil {
		tree.AddUnseen(h, "datapaths of Open vSwitch", err)
	}
	o.Datapaths = tree.OrEmpty(o.Datapaths)
	o.PID, o.Threads = switchThreads(m)
	readPolled(m, o, h)
	if o.Version != "" || len(o.Bridges) > 0 || len(o.Datapaths) > 0 || err != nil {
		h.OpenVSwitch = o
	}
}

// daemon is the program that fills the datapath's flow table, and names its PID file (ovs-vswitchd(8), --pidfile).
const daemon = "ovs-vswitchd"

// mostThreads bounds the threads that are looked at: a handler and a third of a revalidator for each CPU.
const mostThreads = 4096

// switchThreads returns ovs-vswitchd's process and those of its threads that carry packets or flows.
func switchThreads(m *tree.Tree) (int, []facts.OVSThread) {
	all := []facts.OVSThread{}
	pid, known := trust.FromPIDFile(m, path.Join(folder, daemon+".pid"), daemon)
	if !known {
		return 0, all
	}
	tasks := m.Folder("proc/" + strconv.Itoa(pid) + "/task")
	defer tasks.Close()
	names := tasks.Names()
	for _, tid := range names[:min(len(names), mostThreads)] {
		text, there := tasks.Text(tid + "/stat")
		t, err := trust.ParseStat(text)
		does := role(t.Comm)
		if !there || err != nil || does == "" {
			continue
		}
		all = append(all, facts.OVSThread{TID: t.TID, Role: does, CPU: t.CPU,
			Affinity: threads.Affinity(m, t.TID, pid)})
	}
	return pid, all
}

// role returns what a thread of ovs-vswitchd does, by the name that lib/ovs-thread.c (ovs_thread_create) gives it.
func role(comm string) string {
	for _, role := range []string{"handler", "revalidator", "pmd"} {
		if strings.HasPrefix(comm, role) {
			return role
		}
	}
	return ""
}
