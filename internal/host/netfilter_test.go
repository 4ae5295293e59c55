package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// recordedRules is what the tools printed of rule sets made for this test.
func recordedRules(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "netfilter", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRulesOfIptables(t *testing.T) {
	text := recordedRules(t, "iptables.txt")
	lines, rules := parseSave(text, "raw")
	wantLines(t, lines, []string{
		`-t raw -A PREROUTING ! -p 253 -m comment --comment "mpps nflog-skip" -j ACCEPT`,
		`-t raw -A PREROUTING -i vnet0 -j NFLOG --nflog-prefix "in * COMMIT"`,
	})
	if rules != 2 {
		t.Errorf("%d rules, want 2", rules)
	}
	lines, rules = parseSave(text, "filter")
	wantLines(t, lines, []string{
		"-t filter -P FORWARD DROP", "-t filter -A FORWARD -m physdev --physdev-is-bridged -j sg",
		"-t filter -A sg -p tcp -m tcp --dport 22 -j ACCEPT",
	})
	if rules != 2 {
		t.Errorf("%d rules, want 2: a policy is none", rules)
	}
	if marks := legacyMarks(text); !slices.Equal(marks, []bool{true, false}) {
		t.Errorf("our rule among the two of raw PREROUTING: %v, want the first", marks)
	}
}

func TestRulesOfArptables(t *testing.T) {
	lines, rules := parseSave(saveArptables(recordedRules(t, "arptables.txt"), "filter"), "filter")
	wantLines(t, lines, []string{"-t filter -A INPUT -j DROP -i eth0 -s 192.0.2.1", "-t filter -P OUTPUT DROP"})
	if rules != 1 {
		t.Errorf("%d rules, want 1", rules)
	}
}

func TestRulesOfEbtables(t *testing.T) {
	lines, rules := parseSave("ebtables -t filter -P FORWARD DROP\nebtables -t filter -P INPUT ACCEPT\n"+
		"ebtables -t filter -A FORWARD -p ARP -i vnet0 -j ACCEPT \n", "filter")
	wantLines(t, lines, []string{"-t filter -P FORWARD DROP", "-t filter -A FORWARD -p ARP -i vnet0 -j ACCEPT"})
	if rules != 1 {
		t.Errorf("%d rules, want 1", rules)
	}
}

func TestRulesOfNft(t *testing.T) {
	wantLines(t, parseNft(recordedRules(t, "nft.txt")), []string{
		"inet acct prerouting counter log group 3",
		`inet acct prerouting iifname "a" tcp dport { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 } counter accept comment "x { y"`,
		"inet acct forward type filter hook forward priority filter; policy drop;",
		"inet acct forward ct state established accept",
		"inet acct forward tcp dport @ports jump sub",
		"inet acct forward tcp dport vmap @m",
		"inet acct sub return",
		"bridge filter FORWARD ether saddr 52:54:00:00:00:01 drop",
		`ip raw PREROUTING iifname "eth0" counter log group 3`,
	})
}

func TestWhoMadeTheRules(t *testing.T) {
	got := nftBackends([]nftRule{
		{unix.NFPROTO_INET, "acct", "prerouting"}, {unix.NFPROTO_BRIDGE, "filter", "FORWARD"},
		{unix.NFPROTO_IPV4, "raw", "PREROUTING"}, {unix.NFPROTO_IPV4, "filter", "forward"},
	})
	wantLines(t, got, []string{"ebtables-nft", "iptables-nft", "nft"})
}

func TestRulesAreNotAskedForWhereTheyWouldBeLoaded(t *testing.T) {
	m := recorded(t, map[string]string{
		"proc/modules":                                "kvm 1 0 - Live 0x0\n",
		"proc/sys/kernel/osrelease":                   "6.12.1\n",
		"lib/modules/6.12.1/modules.dep":              "",
		"lib/modules/6.12.1/modules.builtin":          "kernel/net/netfilter/nf_log.ko\n",
		"sys/module/nf_conntrack/parameters/hashsize": "1\n",
	})
	for module, want := range map[string]bool{"nf_tables": false, "kvm": true, "nf_log": true, "nf_conntrack": true} {
		if got := m.present(module); got != want {
			t.Errorf("%s present: %v, want %v", module, got, want)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, file := range []string{"nft.txt", "iptables.txt", "arptables.txt"} {
		f.Add(recordedRules(f, file))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, line := range parseNft(text) {
			if strings.Contains(line, "\n") {
				t.Errorf("rule over more than one line: %q", line)
			}
		}
		if lines, rules := parseSave(text, "filter"); rules > len(lines) {
			t.Errorf("%d rules in %d lines", rules, len(lines))
		}
		parseSave(saveArptables(text, "filter"), "filter")
	})
}
