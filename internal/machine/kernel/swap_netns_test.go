//go:build netns

package kernel

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSwapFile turns a swap file on with a priority and off again.
func TestSwapFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	file := filepath.Join(t.TempDir(), "swap")
	must.Do(t, os.WriteFile(file, make([]byte, 4<<20), 0o600))
	treetest.Tool(t, "mkswap", file)
	if out, err := exec.Command("swapon", file).CombinedOutput(); err != nil {
		t.Skipf("this file system or this kernel has no swap files: %s", out)
	}
	treetest.Tool(t, "swapoff", file)
	mechanism := swap{treetest.Live(t)}
	a := setting.Of(setting.Swap, strings.TrimPrefix(file, "/"))
	ctx := context.Background()
	if r := mechanism.Read(ctx, a); r.Value != "off" {
		t.Fatalf("a swap file that is not in use: %+v", r)
	}
	must.Do(t, mechanism.Write(ctx, a, setting.Value("on 5")))
	defer mechanism.Write(ctx, a, setting.Value("off"))
	if r := mechanism.Read(ctx, a); r.Value != "on 5" ||
		!strings.Contains(treetest.Tool(t, "swapon", "--show=NAME,PRIO", "--noheadings"), "5") {
		t.Errorf("after swapon: %+v", r)
	}
	must.Do(t, mechanism.Write(ctx, a, setting.Value("off")))
	must.Equal(t, mechanism.Read(ctx, a).String(), "off", "after swapoff")
}
