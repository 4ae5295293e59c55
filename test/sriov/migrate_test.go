//go:build lab

package sriov

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/sriov"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

const elsewhere = "kvm2"

// migration carries out what 'mpps sriov migrate-plan' prints, word for word, as far as one host goes: instead of the
// migration itself the guest is saved and restored, which QEMU does by the same code and refuses for the same reason,
// and the function of "the other host" is another of the same card. Then it is all undone.
func (s *scene) migration(home, there string) {
	s.Helper()
	if r, err := s.Lab.Shell(s.Context(), "virsh save "+tenant+" /run/"+tenant+".save"); err != nil || r.Code == 0 ||
		!strings.Contains(r.Stderr, "cannot migrate domain") {
		s.Errorf("saved with a function: %v %+v", err, r)
	}
	s.other(there)
	before := s.Must("virsh dumpxml --inactive " + tenant)
	plan := labtest.Answer[sriov.Migration](s, 0, "sriov", "migrate-plan", tenant, "--to", elsewhere, "--to-snapshot",
		"/share/kvm2.json")
	must.Need(s, !plan.Live && strings.Contains(plan.Why, "refused by libvirt and QEMU") && len(plan.Functions) == 1 &&
		plan.Functions[0].Target == there, "%+v", plan)
	done := s.carryOut(plan.Ways[0].Steps)
	s.reaches()
	if xml := s.Must("virsh dumpxml --inactive " + tenant); strings.Contains(xml, pciXML(home)) ||
		!strings.Contains(xml, pciXML(there)) {
		s.Errorf("the definition after the migration:\n%s", xml)
	}
	// Back again, by the commands that undo.
	slices.Reverse(done)
	for _, step := range done {
		if !strings.Contains(strings.Join(step.Undo, ""), "migrate") && len(step.Undo) > 0 {
			s.paste(step.Undo[0])
		}
	}
	s.reaches()
	must.Equal(s, s.Must("virsh dumpxml --inactive "+tenant), before, "after all was undone the definition")
}

// other writes the snapshot of "the other host": this one by another name, without the guest, and with one function
// free.
func (s *scene) other(free string) {
	s.Helper()
	s.MPPS(0, "snapshot", "-o", "/share/kvm2.json")
	f := must.Get(os.Open(filepath.Join(s.Lab.ShareDir(), "kvm2.json")))(s)
	defer f.Close()
	h := must.Get(facts.ReadSnapshot(f))(s)
	h.Name, h.Guests = elsewhere, nil
	for i := range h.VFs {
		if h.VFs[i].PCI != free {
			h.VFs[i].Holder = "another"
		}
	}
	var text bytes.Buffer
	must.Do(s, facts.Write(&text, h, "test"))
	s.Put("kvm2.json", text.String())
}

// paste gives a command to a shell of the host, as an administrator does.
func (s *scene) paste(command string) {
	s.Helper()
	began := time.Now()
	s.Must("cd /run\n" + command)
	line, _, _ := strings.Cut(command, "\n")
	s.Logf("%5.1f s  %s", time.Since(began).Seconds(), line)
}

// carryOut pastes the commands of a way step by step, those of both hosts into this one, up to the last step, which
// forgets the guest here; a migration becomes a save and a restore. It returns the steps that it did.
func (s *scene) carryOut(steps []sriov.MigrateStep) []sriov.MigrateStep {
	s.Helper()
	for _, step := range steps[:len(steps)-1] {
		for _, command := range step.Commands {
			if strings.HasPrefix(command, "virsh migrate --live") {
				// Without --bypass-cache libvirt 11.3 hands QEMU the file itself, which QEMU 11.1 refuses ("fd:
				// migration to a file is not supported"); with it, a pipe.
				file := tenant + ".save"
				command = "virsh save " + tenant + " " + file + " && virsh restore --bypass-cache " + file
			}
			s.paste(command)
		}
	}
	return slices.Clone(steps[:len(steps)-1])
}

// reaches requires that the guest reaches the world beyond the card's cable through its function.
func (s *scene) reaches() {
	s.Helper()
	// A function that was plugged in appears when the guest's hot-plug driver and then igbvf are done with it.
	text, code := s.inside(tenant, `tries=0
while set -- /sys/bus/pci/drivers/igbvf/*/net/*; [ ! -e $1 ] && [ $tries -lt 150 ]; do
	tries=$((tries+1)); busybox usleep 100000
done
n=${1##*/}
busybox ip link set $n up
busybox ip addr replace `+functAddr+` dev $n
for i in 1 2 3 4 5 6 7 8; do busybox ping -c 1 -W 1 `+outside+` && exit 0; done
busybox ip addr
exit 1`)
	must.Hold(s, code == 0, "the guest does not reach %s by its function:\n%s", outside, text)
}

// pciXML is an address as libvirt's XML has it.
func pciXML(pci string) string {
	return "bus='0x" + pci[5:7] + "' slot='0x" + pci[8:10] + "' function='0x" + pci[11:] + "'"
}
