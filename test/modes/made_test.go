//go:build lab

package modes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
)

// madeHost has a bridge with a port on the wire, a sender at the wire's other end, and an agent without virtualization.
const madeHost = `set -e
nic() { d=$(dirname $(grep -l $1 /sys/class/net/*/address)); echo ${d##*/}; }
up=$(nic ` + lab.MACigb0 + `); native=$(nic ` + lab.MACigb1 + `); gen=$(nic ` + lab.MACvirtio + `)
ip link add br0 type bridge forward_delay 0
ip link set $up master br0 up
ip link set br0 up
into() {
	ip netns add $1
	ip link set $2 netns $1
	ip -n $1 link set $2 name $3
	ip -n $1 link set lo up
	ip -n $1 addr add 10.50.0.$4/24 dev $3
	ip -n $1 link set $3 up
}
into gen $gen gen0 2
ip netns exec gen ethtool -L gen0 combined 1
into native $native native0 3
ip netns exec native setsid netserver -D </dev/null >/run/netserver.log 2>&1 &
ip netns exec native setsid mpps agent --listen 10.50.0.3:7878 --secret-file /share/secret </dev/null >/run/native.log 2>&1 &
for i in $(seq 600); do
	! grep -q listening /run/native.log || exit 0
	sleep 0.1
done
cat /run/native.log >&2
exit 1
`

// running lists libvirt's guests, and directories the files that mpps keeps of guests that it makes.
const (
	running     = "virsh -q list --all --name"
	directories = "ls /run/mpps-guests /var/log/libvirt/qemu | grep -v -e lock -e '[.]log$' -e : || true"
)

// killedBy starts the campaign, sends mpps a signal once its guests run, and waits until it and they are gone.
const killedBy = `set -e
cd /run
setsid mpps acceptance $ARGV -o /run/killed >/run/killed.log 2>&1 </dev/null &
pid=$!
until [ "$(virsh -q list --name | grep -c mpps-)" = 2 ]; do
	[ -d /proc/$pid ] || { cat /run/killed.log >&2; exit 1; }
	sleep 0.2
done
kill -$SIGNAL $pid
wait $pid || true
for i in $(seq 600); do
	[ -n "$(virsh -q list --all --name)" ] || exit 0
	sleep 0.2
done
echo left: >&2
virsh list --all >&2
exit 1
`

// TestMadeGuests has 'mpps acceptance modes' make the guests that no --mode names, measure them with netperf, and
// remove them. A signal in between, also SIGKILL, leaves no guest; what SIGKILL leaves of files, the next run removes.
func TestMadeGuests(t *testing.T) {
	labtest.Long(t)
	s := labtest.On(t, labtest.Host(t, labtest.Fresh))
	s.Put("secret", "secret-of-made-guests")
	s.Must(madeHost)
	must.Do(t, s.Lab.EnsureLibvirt(t.Context()))
	native := "10.50.0.3:7878,from=netns:gen/gen0"
	argv := []string{"modes", "--make-guests", "--via", "br0", "--guest-address", "10.50.0.12/24", "--from",
		"netns:gen/gen0", "--secret-file", "/share/secret", "--trials", "2x1s", "--mode", "native=" + native, "--mode",
		"e1000=" + native}

	// What is missing, or in the way, is said before anything is made. Nobody's guest is touched.
	lacking := []string{"acceptance", "-o", "/run/lacking"}
	taken := s.MPPS(3, slices.Concat(lacking, argv, []string{"--via", "br9"})...)
	must.Contain(t, taken.Stdout, "br9")
	s.Must("mpps domain render --name mpps-vhost --memory 64MiB >/run/other.xml && virsh -q define /run/other.xml")
	taken = s.MPPS(3, slices.Concat(lacking, argv)...)
	must.Contain(t, taken.Stdout, "there is a guest mpps-vhost already")
	must.Equal(t, s.Must(running), "mpps-vhost", "guests")
	s.Must("virsh -q undefine mpps-vhost")
	s.LogTime("refused")

	for _, signal := range []string{"INT", "KILL"} {
		s.Must("SIGNAL=" + signal + " ARGV='" + strings.Join(argv, " ") + "'\n" + killedBy)
		left := s.Must(directories)
		must.Equal(t, left != "", signal == "KILL", "after SIG%s: directories %q", signal, left)
		s.LogTime("SIG" + signal)
	}

	// Guests under emulation hang at boot now and then: then the run has failed, and is begun again.
	var r *acceptance.Run
	for try := range 3 {
		dir := "/share/made" + string(rune('0'+try))
		answer := s.MPPSAny([]int{0, 1}, append([]string{"acceptance", "-o", dir, "--engine", "netperf"}, argv...)...)
		must.Equal(t, s.Must(running), "", "after a run: guests")
		must.Equal(t, s.Must(directories), "", "after a run: directories")
		r = madeRun(t, filepath.Join(s.Lab.ShareDir(), filepath.Base(dir)))
		s.LogTime(string(r.State) + " " + r.Why)
		if r.State == acceptance.Done {
			t.Logf("%s", answer.Stdout)
			break
		}
	}
	must.Need(t, r.State == acceptance.Done && len(r.Inputs.Made) == 2 && len(r.Inputs.Modes) == 4,
		"%s: %s; guests %+v, modes %v", r.State, r.Why, r.Inputs.Made, r.Inputs.Modes)
	measured := 0
	for _, f := range r.Figures {
		if f.Measured != nil && f.Measured.Value > 0 && f.Measured.Tool == "netperf" &&
			(strings.HasPrefix(f.ID, "modes.virtio-") || strings.HasPrefix(f.ID, "modes.vhost-")) {
			measured++
		}
	}
	must.Equal(t, measured, 6, "figures of the made guests by netperf: out of the guest, into it, transactions")
}

// madeRun is the last run of a report.
func madeRun(t *testing.T, dir string) *acceptance.Run {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(dir, "acceptance.json")))(t)
	defer f.Close()
	r := must.Get(acceptance.Decode(f))(t).Last("modes")
	if r == nil {
		t.Fatal("the report has no run")
	}
	return r
}
