//go:build lab

package sriov

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// scene is the host while a test uses it. The tests of this package share it: each begins without functions and guests, and
// leaves none.
type scene struct {
	testing.TB
	lab *lab.Lab
	pf  string // the NIC with functions that the tests are about, on PCI bus 1 or 2; its address is lab.MACigb1
}

// bare is what each test begins and ends with: no guests, no functions, and no traces of mpps.
const bare = `for g in $(virsh -q list --all --name 2>/dev/null); do virsh -q destroy $g; virsh -q undefine $g; done 2>/dev/null
for n in /sys/class/net/*/device/sriov_numvfs; do [ $(<$n) = 0 ] || echo 0 > $n; done
systemctl -q disable --now mpps-restore mpps-vfs 2>/dev/null; rm -f /etc/systemd/system/mpps-*.service /etc/modprobe.d/*mpps* /etc/systemd/network/*mpps*
systemctl daemon-reload
rm -rf /var/lib/mpps /run/mpps
true
`

func openScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{TB: t, lab: labtest.Host(t, labtest.Systemd, labtest.Persist)}
	s.must("systemctl is-system-running --wait >/dev/null; cp /share/mpps /usr/local/bin/; modprobe -a igb vfio-pci kvm_amd vhost_net")
	s.must(bare)
	t.Cleanup(func() { s.must(bare) })
	s.pf = s.must("d=$(dirname $(grep -l " + lab.MACigb1 + " /sys/class/net/*/address)); echo ${d##*/}")
	s.must("ip link set " + s.pf + " up")
	return s
}

// scriptLimit is how long one script may take on the host, which may have hung for good.
const scriptLimit = 10 * time.Minute

// must runs a script on the host and returns what it printed; also after the test, to clean up.
func (s *scene) must(script string) string {
	s.Helper()
	limited, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), scriptLimit)
	defer cancel()
	out, err := s.lab.Must(limited, script)
	if err != nil {
		s.Fatalf("%s: %v", script, err)
	}
	return strings.TrimRight(out, "\n")
}

// run runs mpps on the host and requires an exit code.
func (s *scene) run(code int, argv ...string) lab.Result {
	s.Helper()
	r, err := s.lab.Run(s.Context(), append([]string{"mpps"}, argv...)...)
	if err != nil {
		s.Fatal(err)
	}
	if r.Code != code {
		s.Fatalf("mpps %s: exit %d, expected %d\n%s%s", strings.Join(argv, " "), r.Code, code, r.Stdout, r.Stderr)
	}
	return r
}

// answer runs mpps --json on the host and reads the result out of its envelope.
func answer[R any](s *scene, code int, argv ...string) R {
	s.Helper()
	r := s.run(code, append([]string{"--json"}, argv...)...)
	var envelope struct {
		Schema string `json:"schema"`
		Result R      `json:"result"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &envelope); err != nil || envelope.Schema == "" {
		s.Fatalf("no answer: %v\n%.400s%s", err, r.Stdout, r.Stderr)
	}
	return envelope.Result
}

// put writes a file that the host sees as /share/NAME.
func (s *scene) put(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.lab.ShareDir(), name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// guest starts a guest.
func (s *scene) guest(spec lab.GuestSpec) *lab.Guest {
	s.Helper()
	spec.Binary = labtest.Binary(s)
	g, err := s.lab.StartGuest(s.Context(), spec)
	if err != nil {
		s.Fatal(err)
	}
	return g
}

// inside runs a shell's text in a guest with an agent and returns what it printed on both streams, and its exit code.
func (s *scene) inside(guest, script string) (string, int) {
	s.Helper()
	return labtest.Inside(s, s.lab, guest, script)
}
