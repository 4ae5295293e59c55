package host

import (
	"errors"
	"testing"

	"mpps/internal/facts"
)

func TestParseOSInfo(t *testing.T) {
	text := `{"return":{"name":"Debian GNU/Linux","kernel-release":"6.12.48+deb13-amd64","version":"13 (trixie)","pretty-name":"Debian GNU/Linux 13 (trixie)","version-id":"13","kernel-version":"#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1","machine":"x86_64","id":"debian"}}`
	want := facts.Inside{Release: "6.12.48+deb13-amd64", Version: "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1", OS: "Debian GNU/Linux 13 (trixie)"}
	if got := parseOSInfo(returned("\n" + text + "\n\n")); got == nil || *got != want {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"", "{}", "error: Guest agent is not responding", `{"return":{}}`, `{"return":[]}`} {
		if got := parseOSInfo(returned(text)); got != nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestAskSaysWhyACommandFailed: virsh goes on after a command that failed, and ends well when the last one did.
func TestAskSaysWhyACommandFailed(t *testing.T) {
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// The last argument is the list of commands; the word behind "echo" parts their outputs.
	path := program(t, `for list; do :; done
mark=$(printf %s "$list" | sed 's/.*; echo //')
echo '{"return":{"pid":7}}'; echo $mark
echo "error: Guest agent is not responding: guest agent didn't respond to synchronization within '2' seconds" >&2; echo $mark`)
	answers, err := virsh{m, path}.ask(t.Context(), "vm 1", agentCommand{Execute: "guest-ping"}, agentCommand{Execute: "guest-info"})
	if !errors.Is(err, errAgentHangs) || len(answers) != 2 || string(answers[0]) != `{"pid":7}` || answers[1] != nil {
		t.Errorf("%s, %v", answers, err)
	}
}

func FuzzParseOSInfo(f *testing.F) {
	f.Add(`{"return":{"kernel-release":"6.1"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseOSInfo(returned(text)); got != nil && got.Release == "" {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
