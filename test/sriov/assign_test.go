//go:build lab

package sriov

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/sriov"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// given is the answer of assign, as far as the tests look at it.
type given struct {
	sriov.Gift
	Transaction struct {
		TX string `json:"tx"`
	} `json:"transaction"`
}

// idle defines guests that have nothing to boot and no NIC, and returns the definition of the last one.
func (s *scene) idle(names ...string) string {
	s.Helper()
	s.Must("for g in " + strings.Join(names, " ") + "; do mpps domain render --name $g --vcpus 1 --memory 128MiB -o " +
		"/run/$g.xml && virsh -q define /run/$g.xml || exit 1; done")
	return s.definition(names[len(names)-1])
}

func (s *scene) definition(guest string) string {
	s.Helper()
	return s.Must("virsh dumpxml --inactive " + guest)
}

// left is what assigns leave on the host until everything is taken back.
func (s *scene) left() string {
	s.Helper()
	return s.Must("ls -A /var/lib/mpps/vfs 2>/dev/null; ls /var/lib/mpps/desired.json 2>/dev/null; readlink " +
		"/sys/bus/pci/devices/*/driver | grep vfio-pci; true")
}

// ports are what libvirt adds to a definition for a device where there is no free one; it keeps them.
var ports = regexp.MustCompile(`(?s)    <controller type='pci' index='\d+' model='pcie-root-port'>.*?</controller>\n`)

// who tells who has the functions, in their order.
func (s *scene) who() string {
	s.Helper()
	var all []string
	for _, f := range labtest.Answer[sriov.List](s, 0, "sriov", "list", s.pf).VFs {
		all = append(all, strings.TrimSpace(f.Guest+" "+string(f.Holding)))
	}
	return strings.Join(all, ", ")
}

const noNetworks = "for n in $(virsh -q net-list --all --name); do virsh -q net-destroy $n; virsh -q net-undefine " +
	"$n; done 2>/dev/null; true"

// TestAssign gives functions to guests in each form and takes them back, as seen by ip and virsh.
func TestAssign(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.makes(2)
	t.Cleanup(func() { s.Must(noNetworks) })
	for _, part := range []struct {
		name string
		do   func(*scene)
	}{
		{"interface", testInterface},
		{"hostdev", testHostdev},
		{"pool", testPool},
		{"memory", testMemory},
		{"at once", testAtOnce},
		{"killed", testKilled},
		{"plugged into a guest that runs", testPlugged},
	} {
		start := time.Now()
		t.Run(part.name, func(t *testing.T) {
			s := s.in(t)
			t.Cleanup(func() {
				if t.Failed() { // the next part is to find the host in order all the same
					s.Must(bare + noNetworks)
					s.makes(2)
				}
			})
			part.do(s)
		})
		t.Logf("%5.1f s  %s", time.Since(start).Seconds(), part.name)
	}
}

// testInterface: libvirt sets address and VLAN at the guest's start, mpps the rate; a guest that runs keeps the
// function until it has ended, and then it is as new; a rollback leaves the definition as it was, byte by byte.
func testInterface(s *scene) {
	before := s.idle("a")
	g := labtest.Answer[given](s, 0, "sriov", "assign", "a", "--pf", s.pf, "--vlan", "7", "--rate", "100")
	must.Hold(s, g.Index == 0 && g.Form == facts.ByInterface && g.PF == s.pf && g.Transaction.TX != "" &&
		g.Memory.Needs == 128<<20, "%+v", g)
	with := s.definition("a")
	must.Hold(s, strings.Contains(with, "<interface type='hostdev' managed='yes'>") && strings.Contains(with, g.MAC) &&
		strings.Contains(with, "<tag id='7'/>"), "definition:\n%s", with)
	if all, _ := s.vfs(); all[0].MAC == g.MAC || !strings.Contains(all[0].brief(), "vlan 0 qos 0 rate 100") {
		s.Errorf("before the start: %s", all[0].brief())
	}
	s.Must("virsh -q start --paused a")
	if all, _ := s.vfs(); !strings.Contains(all[0].brief(), "mac "+g.MAC+" vlan 7 qos 0 rate 100") {
		s.Errorf("after the start: %s", all[0].brief())
	}
	must.Equal(s, s.who(), "a running, free", "who")

	// The watcher stays because of a value of another function: it sets back what the guest leaves.
	s.MPPS(0, "sriov", "set", s.pf+"/1", "rate", "50")
	out := labtest.Answer[struct {
		Left        []string
		Transaction struct{ TX string }
	}](s, 0, "sriov", "release", "a")
	if all, _ := s.vfs(); len(out.Left) != 1 || !strings.Contains(out.Left[0], "mpps-restore.service sets") ||
		!strings.Contains(all[0].brief(), "mac "+g.MAC+" vlan 7 qos 0 rate 100") {
		s.Errorf("the guest runs on with %s; left: %v", all[0].brief(), out.Left)
	}
	if s.definition("a") != before {
		s.Errorf("after the release:\n%s\nbefore:\n%s", s.definition("a"), before)
	}
	s.Must("virsh -q destroy a")
	s.becomes(0, untouched, time.Minute)
	s.MPPS(0, "rollback", out.Transaction.TX)
	if s.definition("a") != with {
		s.Errorf("after the rollback of the release:\n%s\nbefore:\n%s", s.definition("a"), with)
	}
	s.MPPS(0, "rollback") // of set
	s.MPPS(0, "rollback", g.Transaction.TX)
	if s.definition("a") != before || s.left() != "" {
		s.Errorf("after the rollback of the assign:\n%s\nbefore:\n%s\nleft: %s", s.definition("a"), before, s.left())
	}
	s.MPPS(3, "status", "--detailed-exit-code")
	s.Must("virsh -q undefine a")
}

// testHostdev: mpps sets address and VLAN itself, and takes them back, also where the guest is gone meanwhile.
func testHostdev(s *scene) {
	const mac = "52:54:00:0c:00:02"
	s.idle("b", "c")
	s.MPPS(0, "sriov", "assign", "b", "--vf", s.pf+"/1", "--as", "hostdev", "--mac", mac, "--vlan", "9", "--qos", "3",
		"--trust", "on")
	if xml := s.definition("b"); !strings.Contains(xml, "<hostdev mode='subsystem' type='pci' managed='yes'>") ||
		strings.Contains(xml, mac) {
		s.Errorf("definition:\n%s", xml)
	}
	s.Must("virsh -q start --paused b")
	if all, _ := s.vfs(); all[1].brief() != "mac "+mac+" vlan 9 qos 3 rate 0 spoofchk on trust on" {
		s.Errorf("set: %s", all[1].brief())
	}
	if r := s.MPPS(1, "sriov", "assign", "c", "--mac", mac); !strings.Contains(r.Stderr, mac+" is in use: guest b") {
		s.Errorf("%s", r.Stderr)
	}
	s.Must("virsh -q destroy b; virsh -q undefine b; virsh -q undefine c")
	s.MPPS(0, "sriov", "release", "--vf", s.pf+"/1")
	if all, _ := s.vfs(); !strings.Contains(all[1].brief(), untouched) || all[1].MAC == mac || s.left() != "" {
		s.Errorf("after the release: %s; left: %s", all[1].brief(), s.left())
	}
}

// testPool: two functions, three guests. The one too many is refused before it is defined; who is taken back makes
// room.
func testPool(s *scene) {
	before := map[string]string{}
	s.idle("p1", "p2", "p3")
	for _, name := range []string{"p1", "p2", "p3"} {
		before[name] = s.definition(name)
	}
	s.MPPS(0, "sriov", "assign", "p1", "--as", "network", "--network", "fast", "--pf", s.pf)
	if nets := s.Must("virsh -q net-list --autostart"); !strings.Contains(nets, "fast") ||
		!strings.Contains(nets, "active") {
		s.Errorf("networks: %s", nets)
	}
	second := labtest.Answer[given](s, 0, "sriov", "assign", "p2", "--as", "network", "--vlan", "5")
	r := s.MPPS(1, "sriov", "assign", "p3", "--as", "network", "--network", "fast")
	if !strings.Contains(r.Stderr, "pool fast has 2 functions and 2 interfaces on it already") ||
		!strings.Contains(r.Stderr, "p1 (shut off)") || s.definition("p3") != before["p3"] {
		s.Errorf("%s\n%s", r.Stderr, s.definition("p3"))
	}
	s.Must("virsh -q start --paused p2")
	if _, text := s.vfs(); !strings.Contains(text, second.MAC) {
		s.Errorf("%s is on no function:\n%s", second.MAC, text)
	}
	s.Must("virsh -q destroy p2")
	s.MPPS(0, "rollback", second.Transaction.TX)
	must.Equal(s, s.definition("p2"), before["p2"], "after the rollback")
	s.MPPS(0, "sriov", "assign", "p3", "--as", "network")
	for _, name := range []string{"p1", "p3"} {
		s.MPPS(0, "sriov", "release", name)
		must.Equal(s, s.definition(name), before[name], "%s after the release", name)
	}
	must.Equal(s, s.left(), "", "left")
	s.Must("virsh -q net-destroy fast; virsh -q net-undefine fast; for g in p1 p2 p3; do virsh -q undefine $g; done")
}

// testMemory: what a node does not have is refused before anything is written.
func testMemory(s *scene) {
	s.Must("mpps domain render --name big --vcpus 1 --memory 1GiB --node 1 -o /run/big.xml && virsh -q define " +
		"/run/big.xml && virsh -q setmaxmem big 64G --config")
	before := s.definition("big")
	r := s.MPPS(1, "sriov", "assign", "big", "--force")
	if !strings.Contains(r.Stderr, "guest big needs 65536 MiB of memory, all of it pinned") ||
		!strings.Contains(r.Stderr, "node 1 has ") || s.definition("big") != before || s.left() != "" {
		s.Errorf("%s\n%s\nleft: %s", r.Stderr, s.definition("big"), s.left())
	}
	s.Must("virsh -q undefine big")
}

// testPlugged: a guest that runs gets a function, has its address inside, and lets go of it.
func testPlugged(s *scene) {
	const guest = "live"
	s.Must("ip link add abr0 type bridge; ip addr replace 10.61.0.1/24 dev abr0; ip link set abr0 up")
	s.Cleanup(func() { s.Must("ip link del abr0; true") })
	s.guest(lab.GuestSpec{Name: guest, Agent: true,
		NICs:    []lab.NIC{{Model: lab.Virtio, Bridge: "abr0", MAC: "52:54:00:0c:00:05", Addr: "10.61.0.2/24"}},
		Modules: []string{"igbvf"}})
	before := ports.ReplaceAllString(s.definition(guest), "")
	g := labtest.Answer[given](s, 0, "sriov", "assign", guest, "--pf", s.pf, "--live")
	// Its init loads the modules of the devices that are there at boot, and nothing in it answers to a new one.
	const look = "[ -d /sys/bus/pci/drivers/igbvf ] || insmod /mods/*-igbvf.ko; cat /sys/class/net/*/address; ls " +
		"/sys/bus/pci/drivers/igbvf"
	found := ""
	for range 300 {
		if found, _ = s.inside(guest, look); strings.Contains(found, g.MAC) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	must.Hold(s, strings.Contains(found, g.MAC) && strings.Contains(found, "0000:"),
		"inside: %s, expected %s", found, g.MAC)
	must.Hold(s, strings.Contains(s.Must("virsh dumpxml "+guest), g.MAC) &&
		strings.Contains(s.definition(guest), g.MAC), "it is in one of the two definitions at most")
	s.MPPS(0, "sriov", "release", guest, "--live")
	if found, _ = s.inside(guest, look); strings.Contains(found, g.MAC) ||
		ports.ReplaceAllString(s.definition(guest), "") != before || s.left() != "" {
		s.Errorf("after the release: inside %s; left: %s; definition:\n%s", found, s.left(), s.definition(guest))
	}
	s.Must("virsh -q destroy " + guest + "; virsh -q undefine " + guest)
}

// testAtOnce: three guests want two functions at the same moment. Two get one each, the third is told who has them.
func testAtOnce(s *scene) {
	s.idle("o0", "o1", "o2")
	out := s.Must(`for g in o0 o1 o2; do (mpps sriov assign $g --pf ` + s.pf +
		` --wait 5m >/run/$g.out 2>&1; echo "$g $?: $(grep -o 'all 2 are taken' /run/$g.out)" >/run/$g.rc) & done; wait; cat /run/o?.rc`)
	who := s.who()
	if strings.Count(out, " 0:") != 2 || strings.Count(out, " 1: all 2 are taken") != 1 || strings.Count(who, "defined") != 2 ||
		s.Must("ls /var/lib/mpps/vfs | wc -l") != "2" {
		s.Errorf("%s\nwho: %s\n%s", out, who, s.Must("cat /run/o?.out"))
	}
	for line := range strings.Lines(out) {
		name, rest, _ := strings.Cut(line, " ")
		has := strings.HasPrefix(rest, "0")
		if n := strings.Count(s.definition(name), "<interface type='hostdev'"); (n == 1) != has ||
			!strings.Contains(who, name) == has {
			s.Errorf("%s: %d functions; who: %s", strings.TrimSpace(line), n, who)
		}
		if has {
			s.MPPS(0, "sriov", "release", name)
		}
		s.Must("virsh -q undefine " + name)
	}
	must.Equal(s, s.left(), "", "left")
}

// killedAt are numbers of records that the journal has when the process is killed: the reservation is written,
// attributes are, the definition is, or is just being. (Every one of them is gone through on a host in memory:
// cmd/mpps, TestAssignKilled.)
var killedAt = []int{3, 8, 9}

// testKilled kills an assign: status tells, a rollback leaves everything as it was, and no function is half anybody's.
func testKilled(s *scene) {
	before := s.idle("k")
	for _, records := range killedAt {
		struck := s.killsAssign(records)
		for try := 1; try < 5 && struck == tooLate; try++ {
			s.Must("mpps rollback -q || { cat /run/k.out; exit 1; }")
			struck = s.killsAssign(records)
		}
		if status := s.MPPS(1, "status", "--detailed-exit-code").Stdout; struck == tooLate ||
			!strings.HasPrefix(status, "interrupted") {
			s.Fatalf("%d records: %s; status: %s\n%s", records, struck, status, s.Must("cat /run/k.out"))
		}
		if records == killedAt[0] { // reserved, and in no definition yet
			said := s.MPPS(4, "sriov", "check", "--fail-on", "high").Stdout
			for _, want := range []string{"is interrupted", "for guest k, whose definition does not name it",
				"do: mpps rollback"} {
				must.Hold(s, strings.Contains(strings.Join(strings.Fields(said), " "), want),
					"check after the kill does not say %q:\n%s", want, said)
			}
		}
		s.MPPS(0, "rollback")
		if all, _ := s.vfs(); s.definition("k") != before || s.left() != "" ||
			!strings.Contains(all[0].brief(), untouched) {
			s.Fatalf("%d records, %s: after the rollback %s\n%s\nleft: %s", records, struck, all[0].brief(),
				s.definition("k"), s.left())
		}
		s.Logf("%d records: %s", records, struck)
	}
	must.Equal(s, s.who(), "free, free", "who")
	s.Must("virsh -q undefine k")
}

// tooLate: the assign had ended before the shell could kill it, which itself waits for a CPU on a busy machine.
const tooLate = "too late"

// killsAssign kills an assign of guest k once its journal has a number of records, and returns how many it had.
func (s *scene) killsAssign(records int) string {
	s.Helper()
	// Builtins of the shell only: a fork takes as long as a record.
	return s.Must(fmt.Sprintf(`shopt -s nullglob; declare -A old; for f in /var/lib/mpps/journal/*; do old[$f]=1; done
mpps sriov assign k --pf %s --as hostdev --vlan 3 >/run/k.out 2>&1 & pid=$!
struck=
while [ -z "$struck" ] && kill -0 $pid 2>/dev/null; do
	for f in /var/lib/mpps/journal/*; do
		[ -f "$f" ] && [ -z "${old[$f]}" ] || continue
		mapfile -t l < "$f"
		[ ${#l[@]} -ge %d ] && kill -KILL $pid && struck="struck at ${#l[@]}" && break
	done
done
wait $pid 2>/dev/null
[ $? = 137 ] || struck="`+tooLate+`"
echo "$struck"; sleep 1 # libvirt ends what it was asked for`, s.pf, records))
}
