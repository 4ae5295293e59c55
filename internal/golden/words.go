package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	"mpps/internal/must"
)

// wordKeys are the JSON members that hold prose.
var wordKeys = []string{
	"against", "because", "blocked", "error", "evidence", "hint", "holder", "host_use", "kept", "next", "notes",
	"owners", "site", "text", "tier_why", "title", "verdict", "warning", "why",
}

// Scramble replaces a text deterministically by one that shares no part with it. Empty stays empty.
func Scramble(text string) string {
	if text == "" {
		return ""
	}
	sum := fnv.New64a()
	sum.Write([]byte(text))
	return fmt.Sprintf("Ω%xΩ", sum.Sum(nil))
}

// Reword replaces the prose in a JSON text, including the name of what could not be seen next to the reason.
func Reword(t testing.TB, text []byte, other func(string) string) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	reworded := must.Get(json.MarshalIndent(reword(v, false, other), "", " "))(t)
	return reworded
}

func reword(v any, words bool, other func(string) string) any {
	switch v := v.(type) {
	case string:
		if words {
			return other(v)
		}
	case []any:
		for i := range v {
			v[i] = reword(v[i], words, other)
		}
	case map[string]any:
		_, unseen := v["why"]
		for key := range v {
			if key == "management" { // a plan's digest covers the management route as it was shown
				continue
			}
			v[key] = reword(v[key], slices.Contains(wordKeys, key) || unseen && key == "what", other)
		}
	}
	return v
}

// RewordJournal replaces the prose in a journal and recomputes its sums (internal/change/journal, line.go).
func RewordJournal(t testing.TB, text []byte, other func(string) string) []byte {
	t.Helper()
	var out bytes.Buffer
	sum := ""
	for line := range bytes.Lines(text) {
		var record map[string]json.RawMessage
		if err := json.Unmarshal(line, &record); err != nil {
			out.Write(line) // torn
			break
		}
		delete(record, "sum")
		text := must.Get(json.Marshal(record))(t)
		var content bytes.Buffer
		must.Do(t, json.Compact(&content, Reword(t, text, other)))
		content.Truncate(content.Len() - 1)
		hash := sha256.New()
		hash.Write([]byte(sum))
		hash.Write(content.Bytes())
		sum = hex.EncodeToString(hash.Sum(nil)[:8])
		fmt.Fprintf(&out, "%s,\"sum\":\"%s\"}\n", content.Bytes(), sum)
	}
	return out.Bytes()
}
