//go:build netns

package ovs

import (
	"os"
	"os/exec"

	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/change/apply"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
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
	if err := unix.Mount("run", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("/"+folder, 0o755); err != nil {
		t.Fatal(err)
	}
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
			if got := value(); got != `"20000"` {
				t.Errorf("killed %s: ovs-vsctl reads %s", death, got)
			}
			if _, err := e.Rollback(t.Context(), apply.RollbackOptions{}); err != nil {
				t.Errorf("killed %s: rollback: %v", death, err)
			}
		}
		if now := vsctl("list", "Open_vSwitch"); now != row {
			t.Errorf("killed %s: the row was\n%s\nand is\n%s", death, row, now)
		}
	}

	// What is written is on disk when the write returns; a key that is no number comes back byte by byte.
	limit := setting.Of(setting.OVSDB, "flow-limit")
	was := m.Read(t.Context(), limit)
	if err := m.Write(t.Context(), limit, setting.Value("5000")); err != nil {
		t.Fatal(err)
	}
	kill()
	kill = ovsdbServer(t)
	if r := m.Read(t.Context(), limit); r.Value != "5000" {
		t.Errorf("after a crash: %+v", r)
	}
	if err := m.Write(t.Context(), limit, was); err != nil || vsctl("list", "Open_vSwitch") != row {
		t.Errorf("%v: the row was\n%s\nand is\n%s", err, row, vsctl("list", "Open_vSwitch"))
	}
	if log := treetest.Tool(t, "ovsdb-tool", "show-log", databaseFile); !strings.Contains(log,
		`"mpps: other_config:flow-limit=5000"`) {
		t.Errorf("the database's log does not name mpps:\n%s", log)
	}
	// Somebody else between the read and the write.
	m.Read(t.Context(), idle)
	vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=7000")
	if err := m.Write(t.Context(), idle, setting.Value("20000")); err == nil || value() != `"7000"` {
		t.Errorf("%v, %s", err, value())
	}
}
