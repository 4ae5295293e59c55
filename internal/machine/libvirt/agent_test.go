package libvirt

import (
	"encoding/json"
	"errors"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestAskSaysWhyACommandFailed: virsh continues after a failed command, and exits with 0 if the last one succeeded.
func TestAskSaysWhyACommandFailed(t *testing.T) {
	m := must.Get(tree.Open("/"))(t)
	defer m.Close()
	// The last argument is the list of commands; the word after "echo" separates their outputs.
	path := treetest.Program(t, `for list; do :; done
mark=$(printf %s "$list" | sed 's/.*; echo //')
echo '{"return":{"pid":7}}'; echo $mark
echo "error: Guest agent is not responding: guest agent didn't respond to synchronization within '2' seconds" >&2; echo $mark`)
	answers, err := Virsh{m, []string{path}}.Ask(t.Context(), "vm 1", AgentCommand{Execute: "guest-ping"},
		AgentCommand{Execute: "guest-info"})
	must.Hold(t, errors.Is(err, ErrAgentHangs) && len(answers) == 2 && string(answers[0]) == `{"pid":7}` &&
		answers[1] == nil, "%s, %v", answers, err)
}

// TestAgentRefuses: RHEL's default forbids running programs and reading files.
func TestAgentRefuses(t *testing.T) {
	for answer, want := range map[string]error{
		`{"supported_commands":[{"name":"guest-exec","enabled":true},{"name":"guest-exec-status","enabled":true}]}`:  nil,
		`{"supported_commands":[{"name":"guest-exec","enabled":false},{"name":"guest-exec-status","enabled":true}]}`: ErrAgentRefuse,
		`{"supported_commands":[{"name":"guest-ping","enabled":true}]}`:                                              ErrAgentRefuse,
	} {
		must.Is(t, Allows(json.RawMessage(answer), "guest-exec", "guest-exec-status"), want, "%s", answer)
	}
	must.Refuse(t, Allows(json.RawMessage(`[`), "guest-exec"), "an answer that is none was accepted")
}

func TestAgentFailures(t *testing.T) {
	for said, want := range map[string]error{
		"error: Requested operation is not valid: domain is not running":                                         ErrNotRunning,
		"error: guest agent command timed out: guest agent didn't respond to command within '1' seconds":         ErrAgentHangs,
		"error: Guest agent is not responding: guest agent didn't respond to synchronization within '1' seconds": ErrAgentHangs,
		"error: Guest agent is not responding: QEMU guest agent is not connected":                                ErrNoAgent,
		"error: internal error: End of file from agent socket":                                                   ErrNoAgent,
		"error: argument unsupported: QEMU guest agent is not configured":                                        ErrNoChannel,
	} {
		must.Is(t, AgentFailure(errors.New("virsh: exit status 1: "+said)), want, "%s", said)
	}
}
