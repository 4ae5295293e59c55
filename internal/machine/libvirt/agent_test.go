package libvirt

import (
	"errors"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
)

// TestAskSaysWhyACommandFailed: virsh continues after a failed command, and exits with 0 if the last one succeeded.
func TestAskSaysWhyACommandFailed(t *testing.T) {
	m, err := tree.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// The last argument is the list of commands; the word after "echo" separates their outputs.
	path := treetest.Program(t, `for list; do :; done
mark=$(printf %s "$list" | sed 's/.*; echo //')
echo '{"return":{"pid":7}}'; echo $mark
echo "error: Guest agent is not responding: guest agent didn't respond to synchronization within '2' seconds" >&2; echo $mark`)
	answers, err := Virsh{m, path}.Ask(t.Context(), "vm 1", AgentCommand{Execute: "guest-ping"},
		AgentCommand{Execute: "guest-info"})
	if !errors.Is(err, ErrAgentHangs) || len(answers) != 2 || string(answers[0]) != `{"pid":7}` || answers[1] != nil {
		t.Errorf("%s, %v", answers, err)
	}
}
