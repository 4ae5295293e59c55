package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/advise/fleet"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// TestLinksOutOfFolder: whoever fills a folder of snapshots has no other file of the host read, nor a part of it shown.
// A link within the folder, and a file that is named, may be anywhere.
func TestLinksOutOfFolder(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "shadow")
	must.Do(t, os.WriteFile(outside, []byte("root:hash"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "data"), []byte("inside"), 0o600))
	for name, target := range map[string]string{"absolute.json": outside, "zeros.json": "/dev/zero", "within.json": "data",
		"up.json": "../" + filepath.Base(filepath.Dir(outside)) + "/shadow", "circle.json": "circle.json"} {
		must.Do(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	_, err := Audit(t.Context(), &ops.Env{Out: ops.Deaf{}}, []string{dir}, goal.Goal{PPS: 1000})
	must.Hold(t, err != nil && !strings.Contains(err.Error(), "hash"), "found %v", err)
	for _, name := range []string{"absolute.json", "zeros.json", "up.json", "circle.json"} {
		if f, _, err := (source{filepath.Join(dir, name), dir}).open(); err == nil {
			t.Errorf("%s was opened", f.Name())
		}
	}
	for _, s := range []source{{filepath.Join(dir, "within.json"), dir}, {outside, ""}} {
		f, size, err := s.open()
		must.Need(t, err == nil && size != 0, "%v: %d bytes, %v", s, size, err)
		must.Do(t, f.Close())
	}
}

// TestCrashAlone: a host that crashes the audit is named, and costs no other; so is a file that has no settings.
func TestCrashAlone(t *testing.T) {
	f := fleet.New()
	judge("crash.json", nil, goal.Goal{PPS: 1000}, f)
	judge("fine.json", facts.Synthetic(facts.Size{CPUs: 4, NICs: 1, Queues: 1, Guests: 1}), goal.Goal{PPS: 1000}, f)
	watched := facts.Synthetic(facts.Size{CPUs: 4, NICs: 1, Queues: 1, Guests: 1})
	watched.Load, watched.Readings = &facts.Load{}, nil
	judge("load.json", watched, goal.Goal{PPS: 1000}, f)
	r := f.Report()
	must.Hold(t, len(r.Hosts) == 1 && len(r.Refused) == 2 && r.Refused[0].File == "crash.json" &&
		r.Refused[1].File == "load.json",
		"found %+v, refused %+v", r.Hosts, r.Refused)
}
