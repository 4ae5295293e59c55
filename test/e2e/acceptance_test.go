//go:build lab

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/lab/labtest"
	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
)

// TestAcceptance carries out one experiment of the acceptance protocol as a person does, in its short form: it
// measures, mends, waits for the guest's restart, goes on, measures again, and puts everything back. What it measures
// says nothing, and it says so.
func TestAcceptance(t *testing.T) {
	labtest.Long(t)
	b := openBox(t)
	t.Cleanup(func() {
		if t.Failed() {
			journal, err := b.Lab.Must(context.WithoutCancel(t.Context()), "mpps history; cut -c1-2000 "+
				"/var/lib/mpps/journal/*")
			t.Logf("%s %v", journal, err)
		}
	})
	b.snapshot("first.json")
	// This host is not rebooted. Its site file leaves alone what would wait for it.
	b.Must("mkdir -p /etc/mpps; echo '- {id: boot.aspm, leave: true, reason: not rebooted here}' > /etc/mpps/site.yaml")
	argv := []string{"acceptance", "throughput", "--short", "--no-reboot", "-o", "/share/accepted", "--guest",
		guestName, "--via", bridge,
		"--agent", fmt.Sprintf("%s:%d", guestIP, agentPort), "--secret-file", "/share/secret", "--sink", "af_packet",
		"--pps", "500k", "--consent", "security"}

	// What it would do is said first, and nothing of it is done.
	dry := b.MPPS(0, append(slices.Clone(argv), "--dry-run")...)
	for _, want := range []string{"mpps search --frame 64", "mpps plan -o /share/accepted/throughput-1/plan1.json",
		"waits for: restart of guest " + guestName, "changes now"} {
		must.Hold(b, strings.Contains(dry.Stdout, want), "--dry-run does not say %q:\n%s", want, dry.Stdout)
	}
	must.Fail(os.Stat(filepath.Join(b.Lab.ShareDir(), "accepted")))(b, "--dry-run has begun a report")
	b.MPPS(3, "status", "--detailed-exit-code")
	b.MPPS(3, "acceptance", "throughput", "--guest", "nobody", "--via", bridge, "--agent", "10.50.0.99:1", "-o",
		"/share/lacking")

	b.MPPS(2, argv...)
	r := accepted(b, "throughput")
	must.Need(b, r.State == acceptance.Waiting && len(r.Standing) == 1 && strings.Contains(r.Hint, "--resume") &&
		len(r.Owes.Restart) == 1, "%s: %s (%s); transactions %v, owes %+v", r.State, r.Why, r.Hint, r.Standing, r.Owes)
	// It waits on, and another one is not begun over it.
	b.MPPS(2, "acceptance", "throughput", "--resume", "-o", "/share/accepted")
	b.MPPS(1, argv...)
	must.Do(b, b.guest.Restart(b.Context()))
	answer := b.MPPS(0, "acceptance", "throughput", "--resume", "-o", "/share/accepted")
	b.Logf("%s", answer.Stdout)
	r = accepted(b, "throughput")
	must.Hold(b, r.State == acceptance.Done && len(r.Standing) <= 0 && r.Restarted && r.Inputs.Short,
		"%s: %s; transactions %v", r.State, r.Why, r.Standing)
	for _, s := range r.Steps {
		if s.State != acceptance.Ended && s.State != acceptance.Skipped {
			b.Errorf("step %s: %s %s", s.ID, s.State, s.Problem)
		}
	}
	must.Hold(b, r.Machine != nil && r.Machine.Guest != nil && r.Machine.Guest.Model == "virtio",
		"what was measured after the changes: %+v", r.Machine)
	measured := 0
	for _, f := range r.Figures {
		if f.Measured != nil {
			measured++
		}
		emulated := slices.ContainsFunc(f.Reasons, func(why acceptance.Reason) bool { return why.Code == "emulated" })
		if r.Machine.Emulated && (f.State == acceptance.Reached || f.State == acceptance.Short || f.Measured != nil &&
			!emulated) {
			b.Errorf("%s: %s under emulation, reasons %+v", f.ID, f.State, f.Reasons)
		}
	}
	must.Hold(b, measured == len(r.Figures), "%d of %d figures were measured", measured, len(r.Figures))
	page, err := os.ReadFile(filepath.Join(b.Lab.ShareDir(), "accepted", "acceptance.html"))
	if err != nil || r.Machine.Emulated && !bytes.Contains(page, []byte("EMULATION")) {
		b.Errorf("the page has %d bytes and does not say that it is emulated: %v", len(page), err)
	}
	text, err := os.ReadFile(filepath.Join(b.Lab.ShareDir(), "accepted", "throughput-1", "machine.json"))
	must.Hold(b, err == nil && !bytes.Contains(text, []byte(guestMAC)) && json.Valid(text),
		"the kept snapshot has %d bytes, or an address: %v", len(text), err)

	// The guest's definition is back with one start more, and so is everything else.
	must.Do(b, b.guest.Restart(b.Context()))
	b.Must("rm -r /etc/mpps")
	b.MPPS(3, "status", "--detailed-exit-code")
	b.unchanged("first.json")
}

// accepted is the last run of an experiment in the report in /share.
func accepted(b *box, experiment string) *acceptance.Run {
	b.Helper()
	f := must.Get(os.Open(filepath.Join(b.Lab.ShareDir(), "accepted", "acceptance.json")))(b)
	defer f.Close()
	p := must.Get(acceptance.Decode(f))(b)
	r := p.Last(experiment)
	must.Need(b, r != nil, "the report has no run of %s", experiment)
	return r
}
