package kernel

import (
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestRoomForSwap(t *testing.T) {
	must.Hold(t, checkRoom(8<<30, 16<<30) == nil && checkRoom(0, 0) == nil, "enough is refused")
	must.Say(t, checkRoom(15<<30, 16<<30), "15360 MiB", "too little")
}

func FuzzParseSwaps(f *testing.F) {
	f.Add("Filename Type Size Used Priority\n/dev/sda2 partition 1 2 -2\n/a\\040b file 1 1 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, area := range ParseSwaps(text) {
			if area.Name == "" || area.Name[0] != '/' && !strings.Contains(text, `\`) {
				t.Errorf("area %+v of %q", area, text)
			}
		}
	})
}

// TestSwapsAreBounded: a table of a recorded tree has no more areas than a kernel, each of which is read from it again.
func TestSwapsAreBounded(t *testing.T) {
	must.Equal(t, len(ParseSwaps("Filename\n"+strings.Repeat("/swap file 1024 0 -2\n", 100))), 32, "areas")
}
