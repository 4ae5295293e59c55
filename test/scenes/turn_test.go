package scenes

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOfCommit: four successive commits of a branch have the four turns, merged ones do not count, and a shallow clone
// says that it goes by the hash.
func TestOfCommit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c",
			"commit.gpgsign=false"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for i := range 6 {
		if i == 3 {
			git("checkout", "-q", "-b", "side")
			git("commit", "-q", "--allow-empty", "-m", "side")
			git("commit", "-q", "--allow-empty", "-m", "side")
			git("checkout", "-q", "main")
			git("merge", "-q", "--no-ff", "-m", "merge", "side")
		} else {
			git("commit", "-q", "--allow-empty", "-m", "main")
		}
		if turn, visit, why, err := OfCommit(dir); err != nil || turn != (i+1)%Turns || visit != (i+1)/Turns ||
			strings.Contains(why, "shallow") {
			t.Errorf("commit %d: turn %d, %q, %v", i+1, turn, why, err)
		}
	}
	shallow := t.TempDir()
	if out, err := exec.Command("git", "clone", "-q", "--depth", "1", "file://"+dir,
		shallow).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if turn, _, why, err := OfCommit(shallow); err != nil || turn < 0 || turn >= Turns ||
		!strings.Contains(why, "shallow") {
		t.Errorf("shallow: turn %d, %q, %v", turn, why, err)
	}
	if _, _, _, err := OfCommit(t.TempDir()); err == nil {
		t.Error("a folder that is no repository has a turn")
	}
}
