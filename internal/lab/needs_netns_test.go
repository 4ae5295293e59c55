//go:build netns

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
	"mpps/internal/owned"
)

// TestForbidden: what the kernel forbids is told before anything is built or booted, with a hint, and is not tried
// again.
func TestForbidden(t *testing.T) {
	if os.Getenv("MPPS_LAB_FORBIDDEN") != "" {
		forbidden(t)
		return
	}
	inScratch(t)
	if err := checkNeeds(); err != nil {
		t.Fatalf("with all capabilities: %v", err)
	}
	for _, capability := range []string{"sys_admin", "net_admin"} {
		t.Run(capability, func(t *testing.T) {
			cmd := exec.Command("setpriv", "--bounding-set", "-"+capability, os.Args[0], "-test.run=^TestForbidden$",
				"-test.v")
			cmd.Env = append(os.Environ(), "MPPS_LAB_FORBIDDEN="+capability)
			var said strings.Builder
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := owned.Run(cmd); err != nil || !strings.Contains(said.String(), "FORBIDDEN") {
				t.Errorf("%v\n%s", err, said.String())
			}
		})
	}
}

func forbidden(t *testing.T) {
	inScratch(t)
	err := checkNeeds()
	oneLine(t, err)
	must.Is(t, err, fs.ErrPermission, "without the right to")
	if os.Getenv("MPPS_LAB_FORBIDDEN") == "sys_admin" {
		tree := &Tree{Dir: t.TempDir(), Release: "6.12.107+deb13-amd64"}
		config := must.Get(os.ReadFile("testdata/grub/grub.cfg"))(t)
		menu := filepath.Join(tree.Root(), grubConfig)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(menu), 0o755), os.WriteFile(menu, config, 0o644),
			os.MkdirAll(runDir("forbidden"), 0o755)))
		c := Config{Name: "forbidden", Accel: TCG, Tree: tree}
		c.fill()
		l := newLab(c)
		defer l.Close()
		if err := l.bootUntilUp(t.Context()); !errors.Is(err, fs.ErrPermission) || l.Retries() != 0 {
			t.Errorf("found %v after %d retries, expected a lack of permission and none", err, l.Retries())
		}
	}
	if !t.Failed() {
		fmt.Println("FORBIDDEN")
	}
}
