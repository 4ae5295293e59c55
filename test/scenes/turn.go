package scenes

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// OfCommit returns the turn of the commit that is checked out in dir, how often that turn came before, and a line that
// says why: its number on its
// branch's line of first parents, so that any four successive commits have all four turns. A shallow clone does not
// have that number; there it is the commit's hash, by which four commits may miss a turn.
func OfCommit(dir string) (turn, visit int, why string, err error) {
	git := func(args ...string) string {
		var out []byte
		if err == nil {
			out, err = exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
		}
		return strings.TrimSpace(string(out))
	}
	shallow := git("rev-parse", "--is-shallow-repository") != "false"
	number, base, what := git("rev-list", "--count", "--first-parent", "HEAD"), 10, "commit %s of its branch"
	if shallow {
		number, base, what = git("rev-parse", "--short=8", "HEAD"), 16, "commit %s, by its hash: this clone is shallow"
	}
	if err != nil {
		return 0, 0, "", fmt.Errorf("the turn of this commit: git: %w", err)
	}
	n, err := strconv.ParseUint(number[:min(len(number), 15)], base, 64)
	if err != nil {
		return 0, 0, "", err
	}
	turn, visit = int(n%Turns), int(n/Turns)
	return turn, visit, fmt.Sprintf("turn %d of 0 to %d: "+what, turn, Turns-1, number), nil
}
