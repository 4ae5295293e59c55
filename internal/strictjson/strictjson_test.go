package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/must"
)

type inner struct {
	To string `json:"to"`
}

type outer struct {
	Schema string           `json:"schema"`
	List   []*inner         `json:"list"`
	ByName map[string]inner `json:"by_name"`
	Any    any
	Raw    json.RawMessage
	inner
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	for text, twice := range map[string]string{
		`{"schema":"a","schema":"a"}`:               "schema",
		`{"schema":"a","Schema":"b"}`:               "Schema",
		`{"schema":"a","ſchema":"b"}`:               "ſchema",
		`{"schema":"a","sch\u0065ma":"b"}`:          "schema",
		`{"unknown":1,"Unknown":[]}`:                "Unknown",
		`{"list":[{"to":"a"},{"to":"a","TO":"b"}]}`: "TO",
		`{"by_name":{"a":{"to":"","tO":""}}}`:       "tO",
		`{"by_name":{"a":{},"a":{}}}`:               "a",
		`{"Any":[1,{"x":{}},{"x":[],"x":{}}]}`:      "x",
		`{"Raw" : { "x":1 , "x" : 2 } }`:            "x",
		`{"Any":{"\\":1,"\u005c":2}}`:               `\`,
		`{"Any":{"\ud800":1,"\ud801":2}}`:           "\ufffd",
		`{"to":"a","To":"b"}`:                       "To",
	} {
		var found *TwiceError
		if err := Unmarshal([]byte(text), &outer{}); !errors.As(err, &found) || found.Key != twice {
			t.Errorf("%s: %v, expected %q twice", text, err, twice)
		}
	}
	for _, text := range []string{
		`null`, ` {} `, "{\n\"schema\" : \"\\\"{,\" , \"list\":[ null, {\"to\":\"to\"} ],\"by_name\":{\"a\":{\"to\":\"\"},\"A\":{\"to\":\"\"}}}\r\n",
		`{"Any":{"x":-1.5e3,"X":[true,false,null,[],{}]},"Raw":"x","to":"\\"}`,
	} {
		var strict, plain outer
		if err := errors.Join(Unmarshal([]byte(text), &strict), json.Unmarshal([]byte(text), &plain)); err != nil ||
			!reflect.DeepEqual(strict, plain) {
			t.Errorf("%s: %v", text, err)
		}
	}
	must.Refuse(t, Unmarshal([]byte(`{"schema":"a","schema":"b"`), &outer{}), "half an object was accepted")
}

// FuzzUnmarshal: the walk ends at the end of whatever the decoder accepts.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"a":[1,"\"",{"b":{}}], "a":null}`))
	f.Add([]byte(strings.Repeat("[", 90) + strings.Repeat("]", 90)))
	f.Fuzz(func(t *testing.T, text []byte) {
		var into any
		plain := json.Unmarshal(text, &into)
		s := scanner{text: text}
		if plain != nil {
			return
		}
		if s.value(nil); s.err == nil && strings.TrimSpace(string(text[s.at:])) != "" {
			t.Errorf("%q: ended at %d", text, s.at)
		}
	})
}
