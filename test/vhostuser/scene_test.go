//go:build netns

package vhostuser

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/machine/load"
	"mpps/internal/machine/ovs"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const (
	daemon   = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk" // Debian's
	guestEnd = "dpdk-testpmd"
	folder   = "/run/openvswitch"
	database = "unix:" + folder + "/db.sock"
	ring     = "/run/vhu0"
	logFile  = "/run/ovs-vswitchd.log"
	pmdCPU   = 1
)

// scene is a switch with a port of DPDK on one end of a veth, and a guest.
type scene struct {
	*testing.T
	m     *tree.Tree
	guest io.Writer // commands of testpmd
}

// open starts the switch in a new network namespace, in a child process. It returns false in the parent.
func open(t *testing.T) (*scene, bool) {
	t.Helper()
	for _, program := range []string{daemon, guestEnd} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: scripts/deps dpdk installs Debian's openvswitch-switch-dpdk and dpdk-dev",
				program)
		}
	}
	var online unix.CPUSet
	if must.Do(t, unix.SchedGetaffinity(0, &online)); !online.IsSet(pmdCPU) {
		t.Skipf("the polling thread needs CPU %d", pmdCPU)
	}
	if !treetest.InNamespace(t) {
		return nil, false
	}
	must.Do(t, unix.Mount("run", "/run", "tmpfs", 0, ""))
	must.Do(t, os.MkdirAll(folder, 0o755))
	treetest.IP(t, "link set lo up", "link add v0 type veth peer name v1", "link set v0 up", "link set v1 up")
	s := &scene{T: t, m: treetest.Live(t)}
	treetest.Tool(t, "ovsdb-tool", "create", folder+"/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	s.start("ovsdb-server", folder+"/conf.db", "--remote=p"+database, "--unixctl="+folder+"/ovsdb.ctl")
	s.await("the database", func() bool {
		return exec.Command("ovs-vsctl", "--db="+database, "--no-wait", "init").Run() == nil
	})
	s.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true", "other_config:dpdk-lcore-mask=0x1",
		fmt.Sprintf("other_config:pmd-cpu-mask=%#x", 1<<pmdCPU),
		"other_config:dpdk-extra=--legacy-mem --no-huge --no-pci -m 256")
	// as Debian starts it: by the name that the alternative has
	must.Do(t, os.Symlink(daemon, "/run/ovs-vswitchd"))
	s.start("/run/ovs-vswitchd", database, "--pidfile="+folder+"/ovs-vswitchd.pid", "--log-file="+logFile,
		"-vconsole:off")
	t.Cleanup(func() {
		if log, _ := os.ReadFile(logFile); t.Failed() {
			t.Logf("%s", log)
		}
	})
	s.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
	s.vsctl("add-port", "br0", "p0", "--", "set", "interface", "p0", "type=dpdk",
		"options:dpdk-devargs=eth_af_packet0,iface=v0")
	s.vsctl("add-port", "br0", "vhu0", "--", "set", "interface", "vhu0", "type=dpdkvhostuserclient",
		"options:vhost-server-path="+ring)
	if fault := s.vsctl("get", "interface", "p0", "error"); fault != "[]" {
		t.Fatalf("the port of DPDK: %s", fault)
	}
	return s, true
}

// start starts a program at the lowest priority; it ends with the test.
func (s *scene) start(name string, args ...string) *exec.Cmd {
	s.Helper()
	return s.run(exec.Command("nice", append([]string{"-n", "19", name}, args...)...))
}

func (s *scene) run(cmd *exec.Cmd) *exec.Cmd {
	s.Helper()
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+folder, "XDG_RUNTIME_DIR=/run")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(s.T, cmd.Start())
	s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func (s *scene) await(what string, is func() bool) {
	s.Helper()
	for until := time.Now().Add(60 * time.Second); !is(); time.Sleep(100 * time.Millisecond) {
		must.Need(s, !time.Now().After(until), "waited a minute for %s", what)
	}
}

func (s *scene) vsctl(args ...string) string {
	s.Helper()
	args = append([]string{"--db=" + database, "-t", "60"}, args...)
	return strings.TrimSpace(treetest.Tool(s.T, "ovs-vsctl", args...))
}

// connect starts the guest's end, whose ring nobody empties yet.
func (s *scene) connect() {
	s.Helper()
	// both its threads on CPU 0, away from the polling thread
	cmd := exec.Command("nice", "-n", "19", guestEnd, "--lcores", "0@0,1@0", "--legacy-mem", "--no-huge",
		"--no-pci", "-m", "128", "--file-prefix=guest",
		"--vdev=net_virtio_user0,path="+ring+",server=1,queue_size=1024", "--", "-i", "--forward-mode=rxonly",
		"--total-num-mbufs=4096", "--nb-cores=1")
	s.guest = must.Get(cmd.StdinPipe())(s.T)
	s.run(cmd)
	s.await("the guest", func() bool { return s.vsctl("get", "interface", "vhu0", "status:status") == "connected" })
	time.Sleep(time.Second) // until the guest has enabled its queues
}

func (s *scene) tell(commands ...string) {
	s.Helper()
	for _, c := range commands {
		_ = must.Get(io.WriteString(s.guest, c+"\n"))(s.T)
	}
}

// send sends frames at a rate from the other end of the veth, until the function is called that it returns.
func (s *scene) send(perSecond int) (stop func()) {
	s.Helper()
	fd := must.Get(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0))(s.T)
	v1 := must.Get(net.InterfaceByName("v1"))(s.T)
	must.Do(s.T, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: v1.Index}))
	frame := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45}, make([]byte, 49)...)
	done, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		defer unix.Close(fd)
		const tick = 5 * time.Millisecond
		for {
			select {
			case <-done:
				return
			case <-time.After(tick):
				for range perSecond * int(tick) / int(time.Second) {
					_, _ = unix.Write(fd, frame)
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// host returns what mpps reads of the switch, with the guest that testpmd stands for.
func (s *scene) host() *facts.Host {
	s.Helper()
	h := &facts.Host{Guests: []facts.Guest{{Name: "vm1", State: "running", VCPUs: 1, Interfaces: []facts.Interface{
		{MAC: "52:54:00:00:00:01", Type: "vhostuser", Source: ring, Model: "virtio"}}}}}
	h.Topology.Online = setting.CPUs(0, 1)
	h.Topology.CPUs = []facts.CPU{{ID: 0, Online: true}, {ID: 1, Online: true}}
	ovs.Inventory(s.Context(), s.m, h)
	if h.OpenVSwitch == nil || h.OpenVSwitch.Polled == nil {
		s.Fatalf("mpps does not read the switch: %+v, unseen %+v", h.OpenVSwitch, h.Unseen)
	}
	return h
}

// diagnose watches for a while. It returns the load, the diagnosis, and how long the polling thread waited for its CPU.
func (s *scene) diagnose(h *facts.Host) (*facts.Load, *bottleneck.Diagnosis, float64) {
	s.Helper()
	l := load.Observe(s.Context(), s.m, h, load.Options{Interval: 3 * time.Second, Counters: true})
	if l.Polled == nil {
		s.Fatalf("nothing was counted: %+v", l.Unseen)
	}
	waited := 0.0
	for _, t := range l.Threads {
		if is := func(o facts.OVSThread) bool { return o.TID == t.TID && o.Role == "pmd" }; slices.ContainsFunc(
			h.OpenVSwitch.Threads, is) {
			waited = t.Waited
		}
	}
	return l, bottleneck.Find(h, l), waited
}
