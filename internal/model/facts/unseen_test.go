package facts

import (
	"encoding/json"
	"testing"
)

// TestOldWords reads what snapshots of earlier versions say in words only.
func TestOldWords(t *testing.T) {
	for words, want := range map[string]Unseen{
		"guests of libvirt":                        GuestsUnseen(""),
		"definition of guest vm1":                  DefinitionUnseen("vm1", ""),
		"threads of guest vm1":                     {"threads of guest vm1", "", UnseenThreads, "vm1"},
		"channels of eth0":                         ChannelsUnseen("eth0", ""),
		"rules of nft":                             RulesUnseen("nft", "", ""),
		"rules of ebtables-legacy in table broute": RulesUnseen("ebtables-legacy", "broute", ""),
		"text of the rules of nft":                 NftTextUnseen(""),
		"softnet counters":                         {What: "softnet counters"},
	} {
		var old Unseen
		if err := json.Unmarshal([]byte(`{"what": "`+words+`", "why": ""}`), &old); err != nil || old != want {
			t.Errorf("%s: %+v, %v, expected %+v", words, old, err, want)
		}
	}
	for text, want := range map[string][2]bool{
		`{"host_use": "has address 10.0.0.7"}`: {true, false}, `{"host_use": "port of br0"}`: {},
		`{"holder": "qemu (process 7)"}`:                        {},
		`{"holder": "a container (another network namespace)"}`: {false, true},
	} {
		var v VF
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.OnlyAddress != want[0] || v.Elsewhere != want[1] {
			t.Errorf("%s: %+v, %v", text, v, err)
		}
	}
}
