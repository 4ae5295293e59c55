package libvirt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/machine/trust"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestLargeDefinition: a definition that libvirt would not take is refused before it is searched, and named as unread.
func TestLargeDefinition(t *testing.T) {
	large := "<domain>" + strings.Repeat("<a>", domain.MaxBytes/3)
	l := libvirtFiles{treetest.Lines(t, map[string]string{DefinedFolder + "/web.xml": large})}
	if text, err := l.definition(t.Context(), "web", false); err == nil || text != "" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if all, err := l.all(t.Context()); err != nil || len(all.Guests) != 0 || len(all.Unread) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestCrowdWithoutLibvirt: of root's processes with QEMU's name, libvirt's are all looked into, and of the others as
// many as a host can run; that there are more is said. As many of a person's hide none of them.
func TestCrowdWithoutLibvirt(t *testing.T) {
	const first, more = 10_000, 3
	const last = first + mostUnmanaged + more
	for owner, expected := range map[int]int{0: mostUnmanaged + 1, 1000: 2} {
		m := treetest.Recorded(t, treetest.Merged(qemuFiles(400, owner, "0-1"), qemuFiles(last, 0, "0-1"),
			qemuFiles(last+1, 0, "0-1"), map[string]string{"run/libvirt/qemu/vm1.pid": fmt.Sprintln(last + 1)}))
		for pid := first; pid < last; pid++ {
			must.Do(t, os.Symlink("400", filepath.Join(m.Path, "proc", fmt.Sprint(pid))))
		}
		h := &facts.Host{}
		found := runningGuests(m, h, trust.Processes(m))
		must.Hold(t, len(found) == expected && found[0].pid == last+1,
			"of user %d: %d guests, first that of process %d", owner, len(found), found[0].pid)
		said := len(h.Unseen) == 1 && h.Unseen[0].Part == facts.UnseenGuests &&
			strings.Contains(h.Unseen[0].Why, fmt.Sprint(" ", more+2, " more")) // 400 and last have its name too
		if said != (owner == 0) || owner != 0 && len(h.Unverified) != mostUnverified {
			t.Errorf("of user %d: unseen %+v, %d unverified", owner, h.Unseen, len(h.Unverified))
		}
	}
}
