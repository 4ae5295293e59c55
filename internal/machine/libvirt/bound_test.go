package libvirt

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/domain"
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
