//go:build lab

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// here runs mpps on this machine, outside the lab.
func here(t testing.TB, argv ...string) string {
	t.Helper()
	cmd := exec.Command(labtest.Binary(t), argv...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("mpps %v: %v\n%s", argv, err, said.String())
	}
	return out.String()
}

// testAuditElsewhere judges the host on the host itself and, by a snapshot, on this machine.
func testAuditElsewhere(b *box) {
	b.snapshot("elsewhere.json")
	goal := []string{"audit", "--pps", "1.8M", "--json"}
	live := labtest.Result[map[string]json.RawMessage](b, b.MPPS(0, goal...).Stdout)
	recorded := labtest.Result[map[string]json.RawMessage](b,
		here(b, append(goal, "--snapshot", filepath.Join(b.Lab.ShareDir(), "elsewhere.json"))...))
	findings := func(r map[string]json.RawMessage) []any {
		var all []any
		must.Do(b, json.Unmarshal(r["findings"], &all))
		return all
	}
	inside, outside := findings(live), findings(recorded)
	must.Need(b, len(inside) >= 50 && len(inside) == len(outside),
		"%d findings inside, %d outside", len(inside), len(outside))
	for i := range inside {
		must.Hold(b, reflect.DeepEqual(inside[i], outside[i]),
			"finding %d: inside %v, outside %v", i, inside[i], outside[i])
	}
}

// testContained hides virsh, as on a host whose libvirt runs in a container: the guest is unseen then, and said to be.
// With the command that runs virsh there the findings are those of the host as it is.
func testContained(b *box) {
	b.Must(`cp /usr/bin/virsh /run/virsh
printf '#!/bin/sh\nshift 4\nexec /run/virsh "$@"\n' >/run/podman
chmod 755 /run/podman`)
	b.Cleanup(func() { b.Must("rm -f /run/virsh /run/podman") })
	look := func(how string) audit.Report {
		return labtest.Result[audit.Report](b, b.Must(`unshare -m sh -c 'mount --bind /dev/null /usr/bin/virsh
exec mpps audit --pps 1.8M --json `+how+`'`))
	}
	plain := labtest.Answer[audit.Report](b, 0, "audit", "--pps", "1.8M")
	blind, through := look(""), look(`--virsh "/run/podman exec -i libvirt virsh"`)
	must.Hold(b, !plain.Coverage.Blind() && blind.Coverage.Blind(),
		"unseen with virsh: %v, without: %v", plain.Coverage.Unseen, blind.Coverage.Unseen)
	must.Hold(b, !through.Coverage.Blind() && reflect.DeepEqual(through.Findings, plain.Findings),
		"through the container: unseen %v, %d findings; expected the %d of the host", through.Coverage.Unseen,
		len(through.Findings), len(plain.Findings))
}
