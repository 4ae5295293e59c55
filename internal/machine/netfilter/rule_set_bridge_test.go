package netfilter

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/must"
)

// The output of ebtables 2.0.11 for a table with two user-defined chains, and the input of ebtables-legacy-restore that
// restored it.
const (
	bridgeListing = "ebtables -t filter -N mine\n" +
		"ebtables -t filter -N other\n" +
		"ebtables -t filter -A INPUT -p IPv4 --ip-proto udp --ip-dport 53 --log-level info --log-prefix \"two  " +
		"words\" -j CONTINUE \n" +
		"ebtables -t filter -P FORWARD DROP\n" +
		"ebtables -t filter -A FORWARD -p ARP -i vnet0 --arp-op Request -j ACCEPT \n" +
		"ebtables -t filter -A FORWARD -j mine\n" +
		"ebtables -t filter -A OUTPUT --among-dst 0:11:22:33:44:55=1.2.3.4,0:11:22:33:44:56, -j DROP \n" +
		"ebtables -t filter -P mine RETURN\n" +
		"ebtables -t filter -A mine -j other\n" +
		"ebtables -t filter -P other DROP\n"
	bridgeSaved = "*filter\n-N mine\n-N other\n" +
		"-A INPUT -p IPv4 --ip-proto udp --ip-dport 53 --log-level info --log-prefix \"two  words\" -j CONTINUE\n" +
		"-P FORWARD DROP\n" +
		"-A FORWARD -p ARP -i vnet0 --arp-op Request -j ACCEPT\n" +
		"-A FORWARD -j mine\n" +
		"-A OUTPUT --among-dst 0:11:22:33:44:55=1.2.3.4,0:11:22:33:44:56, -j DROP\n" +
		"-P mine RETURN\n-A mine -j other\n-P other DROP\n"
)

func TestBridgeRules(t *testing.T) {
	text, empty, err := bridgeRules(bridgeListing, "filter")
	must.Hold(t, text == bridgeSaved && !empty && err == nil,
		"empty %v, %v:\n%s\nwant\n%s", empty, err, text, bridgeSaved)
	must.Equal(t, emptyTables(bridgeSaved+"*nat\n-A PREROUTING -j DROP\n"), "*filter\n*nat\n", "emptied")
	if text, empty, err := bridgeRules("", "nat"); text != "*nat\n" || !empty || err != nil {
		t.Errorf("without rules: %q, empty %v, %v", text, empty, err)
	}
	if text, empty, err := bridgeRules("ebtables -t nat -P OUTPUT DROP\n", "nat"); text != "*nat\n-P OUTPUT DROP\n" ||
		empty || err != nil {
		t.Errorf("a policy alone: %q, empty %v, %v", text, empty, err)
	}
}

// TestBridgeRulesBeyondRestore: rules that the program would misread, or crash on, are not restorable.
func TestBridgeRulesBeyondRestore(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		beyond  bool
	}{
		"as long as a line may be": {"-A INPUT --among-src " +
			strings.Repeat("a", bridgeLineBytes-len("-A INPUT --among-src ")), false},
		"a byte longer": {"-A INPUT --among-src " +
			strings.Repeat("a", bridgeLineBytes-len("-A INPUT --among-src ")+1), true},
		"as many words as there may": {strings.TrimSpace(strings.Repeat("a ", bridgeLineWords)), false},
		"a word more":                {strings.TrimSpace(strings.Repeat("a ", bridgeLineWords+1)), true},
		"two prefixes":               {`-A INPUT --log-prefix "a" --nflog-prefix "b" -j DROP`, false},
		"a quotation mark in one":    {`-A INPUT --log-prefix "a"b" -j DROP`, true},
	} {
		text, empty, err := bridgeRules("ebtables -t filter "+c.command+"\n", "filter")
		must.Hold(t, !empty && text == "*filter\n"+c.command+"\n" && errors.Is(err, errBeyondRestore) == c.beyond,
			"%s: empty %v, %v: %.60q", name, empty, err, text)
	}
	if _, _, err := bridgeRules("The kernel doesn't support the ebtables 'filter' table.\n", "filter"); err == nil ||
		errors.Is(err, errBeyondRestore) {
		t.Errorf("no command: %v", err)
	}
}
