package ovs

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// answerOf returns the database's answer with these rows of bridges, ports and interfaces.
func answerOf(bridges, ports, interfaces string) string {
	return fmt.Sprintf(`{"id":"mpps","error":null,"result":[{"rows":[{"ovs_version":"3.5.0"}]},{"rows":[%s]},`+
		`{"rows":[%s]},{"rows":[%s]}]}`, bridges, ports, interfaces)
}

// TestHostileDatabase: whatever the database answers costs what it holds, and ends in lines of bounded length.
func TestHostileDatabase(t *testing.T) {
	set := func(id string, n int) string {
		return `["set",[` + strings.Repeat(`["uuid","`+id+`"],`, n-1) + `["uuid","` + id + `"]]]`
	}
	row := func(id, rest string) string {
		return fmt.Sprintf(`{"_uuid":["uuid","%s"],"name":"%s"%s}`, id, id, rest)
	}
	many := func(n int, row string) string { return strings.TrimSuffix(strings.Repeat(row+",", n), ",") }
	bridge := func(ports string) string { return `{"name":"br","ports":` + ports + `}` }
	long := strings.Repeat("x", 4<<20)
	for what, text := range map[string]string{
		"one port 100,000 times, with one interface as often": answerOf(bridge(set("p", 100_000)),
			row("p", `,"interfaces":`+set("i", 100_000)), row("i", "")),
		"a port of 10,000 bridges": answerOf(many(10_000, bridge(set("p", 20))), row("p", `,"interfaces":`+set("i", 1000)),
			row("i", "")),
		"references in a circle":  answerOf(bridge(set("br", 2)), row("br", `,"interfaces":`+set("br", 2)), ""),
		"a long error":            `{"id":"mpps","error":"` + long + `"}`,
		"a long refusal":          `{"id":"mpps","result":[{"error":"` + long + `","details":"` + long + `"}]}`,
		"a nested error":          `{"id":"mpps","error":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"a name that is a number": answerOf(`{"name":7,"ports":["set",[]]}`, "", ""),
		"a long type":             answerOf(`{"name":["`+long+`",{}]}`, "", ""),
		"a number beyond bounds":  answerOf("", "", row("i", `,"mtu":99999999999999999999999`)),
		"an id that is a map":     `{"id":{},"method":"echo"}{"id":[],"error":null}`,
	} {
		t.Run(what, func(t *testing.T) {
			h := &facts.Host{}
			used := treetest.CPUTime(t)
			Inventory(t.Context(), treetest.Recorded(t, map[string]string{socket: text}), h)
			if used = treetest.CPUTime(t) - used; used.Seconds() > 20 {
				t.Errorf("%v of CPU time", used)
			}
			for _, u := range h.Unseen {
				must.Hold(t, len(u.What)+len(u.Why) <= 2000, "a line of %d bytes: %.80s", len(u.Why), u.Why)
			}
			ports := 0
			if h.OpenVSwitch != nil {
				for _, b := range h.OpenVSwitch.Bridges {
					for _, p := range b.Ports {
						ports += 1 + len(p.Interfaces)
					}
				}
			}
			must.Hold(t, ports <= 2, "%d ports and interfaces of 2", ports)
			if _, err := ask(database(t, text), nil); err != nil && len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}
