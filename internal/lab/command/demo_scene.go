package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mpps/internal/lab"
	"mpps/internal/outcome"
)

// The demo's host is typical: a guest with an emulated single-queue NIC, on a bridge whose frames pass an old rule set,
// with interrupts and threads wherever the scheduler put them.
const (
	demoLab     = "demo"
	demoGuest   = "web1"
	demoMAC     = "52:54:00:0a:00:02"
	demoBridge  = "br0"
	demoAddress = "10.50.0.2"
	demoPort    = 7878
	demoSecret  = "secret-of-the-demo"
	demoCounted = 254 // hosts that have rules
)

// demoSetup creates bridge, uplink and rules. The rules are accounting that nobody reads, of what each address of a /24
// sent and received: they match hosts that no longer exist, so every frame of the guest passes all of them.
var demoSetup = fmt.Sprintf(`
modprobe br_netfilter
ip link add %[1]s type bridge forward_delay 0
ip addr add 10.50.0.1/24 dev %[1]s
ip link set %[1]s up
for n in /sys/class/net/*; do
	[ "$(cat $n/address)" = 52:54:00:00:01:00 ] || continue
	ip link set ${n##*/} master %[1]s
	ip link set ${n##*/} up
done
sysctl -qw net.bridge.bridge-nf-call-iptables=1
echo 1 > /sys/class/net/%[1]s/bridge/nf_call_iptables
{
	echo "*filter"
	for i in $(seq %[2]d); do
		for way in s d; do
			echo "-A FORWARD -$way 192.0.2.$i -m comment --comment \"accounting of a host that is gone\" -j RETURN"
		done
	done
	echo COMMIT
} | iptables-legacy-restore --noflush
`, demoBridge, demoCounted)

// demoSpec is the guest before tuning.
func demoSpec(init string) lab.GuestSpec {
	return lab.GuestSpec{
		Name: demoGuest, Binary: init, VCPUs: 2, MemoryMiB: 256,
		NICs:    []lab.NIC{{Model: lab.E1000, Bridge: demoBridge, MAC: demoMAC, Addr: demoAddress + "/24"}},
		Modules: []string{"veth"}, // the agent measures its receiver alone behind a veth pair
		Args:    []string{"mpps.secret=" + demoSecret}, Probe: lab.TCPProbe(demoPort),
	}
}

// scene is the lab host with its guest.
type scene struct {
	lab   *lab.Lab
	guest *lab.Guest
	log   io.Writer // output of running programs
}

// openScene starts a lab with the demo's host. steps gets the lab's progress, log the output of programs.
func (a *app) openScene(ctx context.Context, steps func(string), log io.Writer) (*scene, error) {
	p, err := a.programs()
	if err != nil {
		return nil, err
	}
	begin, err := demoBeginning(p, steps)
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, lab.Config{Name: demoLab, Log: steps, Begin: begin})
	if err != nil {
		return nil, otherDemo(err)
	}
	s := &scene{lab: l, log: log}
	if s.guest, err = l.GuestOf(demoSpec(p.init)); err != nil {
		return nil, closeAfter(l, err)
	}
	return s, nil
}

// otherDemo says what to do where the demo's name is taken.
func otherDemo(err error) error {
	if errors.Is(err, lab.ErrRunning) {
		return outcome.Failed(err, "another demo runs on this machine: wait for its end; 'mpps-lab list' shows it")
	}
	return err
}

// expectScene is about how long openScene takes, by what there is already.
func (a *app) expectScene(ctx context.Context) time.Duration {
	p, err := a.programs()
	if err != nil {
		return 0 // openScene says why
	}
	begin, err := demoBeginning(p, nil)
	if err != nil {
		return 0
	}
	return lab.Expect(ctx, lab.Config{Name: demoLab, Begin: begin})
}

// demoBeginning sets up the demo's host with its guest. It is saved once per build of the programs, and the newest is
// kept.
func demoBeginning(p programs, steps func(string)) (*lab.Beginning, error) {
	key := sha256.New()
	fmt.Fprintf(key, "%s\n%+v\n", demoSetup, demoSpec(""))
	for _, file := range []string{p.host, p.init} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		key.Write(text)
	}
	begin := &lab.Beginning{Name: demoLab, Key: "demo " + hex.EncodeToString(key.Sum(nil))}
	begin.Make = func(ctx context.Context, l *lab.Lab) error {
		steps("the host is booted: bridge, rules, the first start of libvirt and the guest")
		if err := l.Install(ctx, p.host); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(l.ShareDir(), "secret"), []byte(demoSecret), 0o600); err != nil {
			return err
		}
		if _, err := l.Must(ctx, demoSetup); err != nil {
			return fmt.Errorf("set up the demo's host: %w", err)
		}
		if _, err := l.StartGuest(ctx, demoSpec(p.init)); err != nil {
			return err
		}
		steps("the guest runs: save this state, from which later runs start")
		return nil
	}
	return begin, nil
}

// mpps runs mpps on the emulated host and returns its standard output. An exit code that is not allowed is an error
// with the end of the output.
func (s *scene) mpps(ctx context.Context, allowed []int, argv ...string) (string, error) {
	r, err := s.run(ctx, allowed, argv...)
	return r.Stdout, err
}

// run is mpps with the exit code. The output goes to the log while the program runs.
func (s *scene) run(ctx context.Context, allowed []int, argv ...string) (lab.Result, error) {
	var out, said bytes.Buffer
	fmt.Fprintln(s.log, "$ mpps", strings.Join(argv, " "))
	r, err := s.lab.Exec(ctx, lab.Cmd{Argv: append([]string{"mpps"}, argv...),
		Stdout: io.MultiWriter(&out, s.log), Stderr: io.MultiWriter(&said, s.log)})
	if err != nil {
		return r, err
	}
	r.Stdout, r.Stderr = out.String(), said.String()
	if slices.Contains(allowed, r.Code) {
		return r, nil
	}
	return r, fmt.Errorf("mpps %v on the demo's host: %w", argv, r.Err())
}
