//go:build lab

package planted

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

func init() { run = labtest.Main }

// TestPlantedHost plays scenarios on the emulated host, whose kernel is its own and has more than this one's may: those
// of the directory lab and, of the others, those that need such a kernel. The runner is this very test, compiled for
// namespaces.
func TestPlantedHost(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.Size(8, 6144))
	runner := filepath.Join(t.TempDir(), "planted.test")
	build := exec.Command("go", "test", "-c", "-tags", "netns", "-o", runner, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	must.Do(t, l.Put("planted.test", runner))
	own := must.Get(os.ReadDir("lab"))(t)
	for _, f := range own {
		must.Do(t, l.Put("plants-"+f.Name(), filepath.Join("lab", f.Name())))
	}
	names := os.Getenv("MPPS_PLANTED_ONLY")
	if names == "" {
		names = "*"
	}
	began := time.Now()
	r := must.Get(l.Shell(t.Context(), fmt.Sprintf(`mkdir -p /tmp/plants /tmp/loads
for f in /share/plants-*.yaml; do n=${f##*/}; cp $f /tmp/plants/${n#plants-}; done
cp /share/planted.test /tmp; cd /tmp && MPPS_BIN=/usr/local/bin/mpps MPPS_PLANTED=/tmp/plants MPPS_PLANTED_ONLY='%s' MPPS_PLANTED_OWN_KERNEL=only MPPS_PLANTED_SCALE=%s \
	MPPS_PLANTED_TABLE=/share/table.md MPPS_PLANTED_RECORD=/tmp/loads timeout 1500 ./planted.test -test.v -test.run '^TestPlanted$' </dev/null`,
		strings.ReplaceAll(names, "'", ""), labScale)))(t)
	t.Logf("%.0f s\n%s", time.Since(began).Seconds(), r.Stdout)
	must.Hold(t, r.Code == 0, "exit code %d: %s", r.Code, r.Stderr)
	if dir := os.Getenv("MPPS_PLANTED_RECORD"); dir != "" {
		text := must.Get(l.Must(t.Context(), "cd /tmp/loads && for f in *.json; do echo \"@@ $f\"; cat $f; done"))(t)
		for _, part := range strings.Split("\n"+text, "\n@@ ")[1:] {
			name, load, _ := strings.Cut(part, "\n")
			must.Try(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(load), 0o644))
		}
	}
}

// labScale is how much slower the emulated host is.
const labScale = "0.05"
