package libvirt

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestReached: virsh in a container is run as given, without a shell and whatever sockets the host has, with the URI
// before its commands. One that is not there is named.
func TestReached(t *testing.T) {
	podman := treetest.Program(t, `[ "$1 $2 $3 $4" = "exec -i nova libvirt virsh" ] || exit 9
shift 4
[ "$1 $2 $3" = "-q -c qemu:///session" ] || exit 8
for list; do :; done
echo "${list%%;*}"; echo "${list##*; echo }"`)
	m := treetest.Live(t)
	m.Libvirt = tree.Libvirt{Virsh: []string{podman, "exec", "-i", "nova libvirt", "virsh"}, URI: "qemu:///session"}
	l := must.Get(Open(m))(t)
	out, err := l.(Virsh).Run(t.Context(), "", "version")
	must.Hold(t, err == nil && len(out) == 1 && strings.TrimSpace(out[0]) == "version", "found %q, %v", out, err)
	m.Libvirt.Virsh[0] = "no-such-podman"
	if _, err := Open(m); err == nil || !strings.Contains(err.Error(), "no-such-podman") {
		t.Errorf("found %v, want the program that is missing", err)
	}
}
