//go:build netns

package ovs

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mpps/internal/change/apply"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const (
	databaseFile = "/" + folder + "/conf.db"
	schema       = "/usr/share/openvswitch/vswitch.ovsschema"
)

// ovsdbServer starts ovsdb-server on the database of the private /run.
func ovsdbServer(t *testing.T) (kill func()) {
	t.Helper()
	cmd := exec.Command("ovsdb-server", databaseFile, "--remote=punix:/"+socket, "--unixctl=/"+folder+"/ctl")
	cmd.Env = append(os.Environ(), "OVS_RUNDIR=/"+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return func() {}
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	for range 100 {
		if exec.Command("ovs-vsctl", "--db=unix:/"+socket, "--no-wait", "init").Run() == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return kill
}

// TestRealDatabase sets keys in Debian's ovsdb-server, and has it killed in the middle of an apply. Every byte of the
// row is as before after a rollback.
func TestRealDatabase(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	must.Do(t, unix.Mount("run", "/run", "tmpfs", 0, ""))
	must.Do(t, os.MkdirAll("/"+folder, 0o755))
	treetest.Tool(t, "ovsdb-tool", "create", databaseFile, schema)
	kill := ovsdbServer(t)
	vsctl := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(treetest.Tool(t, "ovs-vsctl", append([]string{"--db=unix:/" + socket, "--no-wait"},
			args...)...))
	}
	vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=0", `other_config:flow-limit="a \"b\""`)
	row := vsctl("list", "Open_vSwitch")
	m := Mechanisms(treetest.Live(t))[setting.OVSDB]
	value := func() string { return vsctl("--if-exists", "get", "Open_vSwitch", ".", "other_config:max-idle") }

	for _, death := range []string{"", "before the write", "after the write"} {
		h := &hooked{Mechanism: m}
		restart := func() {
			kill() // as by a crash: nothing is closed
			go func() {
				time.Sleep(time.Second)
				kill = ovsdbServer(t)
			}()
		}
		switch death {
		case "before the write":
			h.before = restart
		case "after the write":
			h.after = restart
		}
		e, result, err := transaction(t, h)
		t.Logf("killed %s: %s, %v", death, result.State, err)
		if err == nil {
			must.Equal(t, value(), `"20000"`, "killed %s: ovs-vsctl reads", death)
			must.Pass(e.Rollback(t.Context(), apply.RollbackOptions{}))(t, "killed %s: rollback", death)
		}
		must.Equal(t, vsctl("list", "Open_vSwitch"), row, "killed %s: the row\nand", death)
	}

	// What is written is on disk when the write returns; a key that is no number comes back byte by byte.
	limit := setting.Of(setting.OVSDB, "flow-limit")
	was := m.Read(t.Context(), limit)
	must.Do(t, m.Write(t.Context(), limit, setting.Value("5000")))
	kill()
	kill = ovsdbServer(t)
	must.Equal(t, m.Read(t.Context(), limit).String(), "5000", "after a crash")
	if err := m.Write(t.Context(), limit, was); err != nil || vsctl("list", "Open_vSwitch") != row {
		t.Errorf("%v: the row was\n%s\nand is\n%s", err, row, vsctl("list", "Open_vSwitch"))
	}
	must.Contain(t, treetest.Tool(t, "ovsdb-tool", "show-log", databaseFile), `"mpps: other_config:flow-limit=5000"`)
	// Somebody else between the read and the write.
	m.Read(t.Context(), idle)
	vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=7000")
	if err := m.Write(t.Context(), idle, setting.Value("20000")); err == nil || value() != `"7000"` {
		t.Errorf("%v, %s", err, value())
	}
}

// TestRealOVN reads what OVN leaves in Debian's ovsdb-server, whose schema is of today or lacks the newer columns.
func TestRealOVN(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	must.Do(t, unix.Mount("run", "/run", "tmpfs", 0, ""))
	must.Do(t, os.MkdirAll("/"+folder, 0o755))
	var old map[string]any
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(schema))(t), &old))
	columns := old["tables"].(map[string]any)["Interface"].(map[string]any)["columns"].(map[string]any)
	for _, name := range packetPolicers {
		delete(columns, name)
	}
	must.Do(t, os.WriteFile("/run/old.ovsschema", must.Get(json.Marshal(old))(t), 0o600))
	for file, newer := range map[string]bool{"/run/old.ovsschema": false, schema: true} {
		treetest.Tool(t, "ovsdb-tool", "create", databaseFile, file)
		kill := ovsdbServer(t)
		args := strings.Fields("--db=unix:/" + socket + " --no-wait set Open_vSwitch . external_ids:system-id=hv1 " +
			"external_ids:ovn-remote=ssl:192.0.2.1:6642 external_ids:ovn-encap-type=geneve " +
			"external_ids:ovn-encap-ip=192.0.2.7 external_ids:ovn-bridge-mappings=physnet1:br-ex " +
			"-- add-br br-int -- br-set-external-id br-int ct-zone-a 1 -- add-br br-vlan br-int 20 " +
			"-- add-port br-int p-int -- set Interface p-int type=patch options:peer=p-ext " +
			"-- set Port p-int external_ids:ovn-localnet-port=provnet " +
			"-- add-port br-int vnet0 -- set Interface vnet0 external_ids:iface-id=a external_ids:ovn-installed=true")
		if newer {
			args = append(args, "ingress_policing_kpkts_rate=50")
		}
		treetest.Tool(t, "ovs-vsctl", args...)
		h := &facts.Host{}
		Inventory(t.Context(), treetest.Live(t), h)
		kill()
		must.Do(t, os.Remove(databaseFile))
		rate := map[bool]int{true: 50}[newer]
		want := []facts.OVSPort{
			{Name: "br-int", Interfaces: []facts.OVSInterface{{Name: "br-int", Type: "internal"}}},
			{Name: "br-vlan", Tag: 20, Fake: true, Interfaces: []facts.OVSInterface{{Name: "br-vlan", Type: "internal"}}},
			{Name: "p-int", Localnet: true, Interfaces: []facts.OVSInterface{{Name: "p-int", Type: "patch",
				Options: map[string]string{"peer": "p-ext"}}}},
			{Name: "vnet0", Interfaces: []facts.OVSInterface{{Name: "vnet0", PacketRate: rate, IfaceID: true,
				Installed: true}}},
		}
		if h.OpenVSwitch == nil || len(h.OpenVSwitch.Bridges) != 1 {
			t.Fatalf("%s: %+v, unseen %+v", file, h.OpenVSwitch, h.Unseen)
		}
		must.NoDiff(t, cmp.Diff(want, h.OpenVSwitch.Bridges[0].Ports), "%s", file)
		chassis := &facts.OVN{Chassis: "hv1", Remote: "ssl:192.0.2.1:6642", Bridge: "br-int", EncapType: "geneve",
			EncapIP: "192.0.2.7", Mappings: map[string]string{"physnet1": "br-ex"}, Zones: 1}
		must.NoDiff(t, cmp.Diff(chassis, h.OpenVSwitch.OVN), "%s", file)
	}
}
