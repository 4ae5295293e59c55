//go:build netns

package main

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/outcome"
)

// absurd replaces the answers of a true agent to some verbs.
type absurd struct {
	mu    sync.Mutex
	verbs map[string]string             // of requests, by ID
	say   map[string]func(n int) string // by verb: the answer to the n-th request; empty: the true one
	asks  map[string]int
}

func (a *absurd) agent() hostileAgent {
	a.verbs, a.asks = map[string]string{}, map[string]int{}
	return hostileAgent{
		asked: func(line string) string {
			var r struct {
				ID   uint64 `json:"id"`
				Verb string `json:"verb"`
			}
			if json.Unmarshal([]byte(line), &r) == nil && r.Verb != "" {
				a.mu.Lock()
				a.verbs[strconv.FormatUint(r.ID, 10)] = r.Verb
				a.mu.Unlock()
			}
			return line
		},
		answered: func(line string) string {
			var r struct {
				ID     uint64          `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if json.Unmarshal([]byte(line), &r) != nil || len(r.Result) == 0 {
				return line
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			id := strconv.FormatUint(r.ID, 10)
			verb := a.verbs[id]
			say, lies := a.say[verb]
			if !lies {
				return line
			}
			a.asks[verb]++
			if text := say(a.asks[verb]); text != "" {
				return `{"id":` + id + `,"result":` + edited(r.Result, text) + `}`
			}
			return line
		},
	}
}

// edited returns an object with some fields of another, or the other if it is none.
func edited(object json.RawMessage, fields string) string {
	var all, some map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil || json.Unmarshal([]byte(fields), &some) != nil {
		return fields
	}
	maps.Copy(all, some)
	text, _ := json.Marshal(all)
	return string(text)
}

// TestAbsurdAnswers: what an agent answers costs its own measurement. It is refused in one line, or judged as what it
// is, within seconds and in bounded output, and nothing is left on the host.
func TestAbsurdAnswers(t *testing.T) {
	h := newHostAndGuest(t)
	always := func(text string) func(int) string { return func(int) string { return text } }
	many := func(n int, one func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, one(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	warnings := always(`{"warnings":` + many(100_000, func(i int) string {
		return strconv.Quote(strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h",
			"8", "i", "9", "j").Replace(strconv.Itoa(i)))
	}) + `}`)
	long := strconv.Quote(strings.Repeat("x", 700_000))
	pps := []string{"pps", "--via", "br0", "--rate", "5k", "--repeat", "1"}
	back := append(pps[:len(pps):len(pps)], "--reverse")
	const most = 1<<64 - 1
	for name, c := range map[string]struct {
		bench []string
		say   map[string]func(int) string
	}{
		"warnings without end":   {pps, map[string]func(int) string{"sink.counts": warnings}},
		"counts above all":       {pps, map[string]func(int) string{"sink.counts": always(`{"received":18446744073709551615}`)}},
		"more twice than at all": {pps, map[string]func(int) string{"sink.counts": always(`{"duplicated":18446744073709551615}`)}},
		"a negative count":       {pps, map[string]func(int) string{"sink.counts": always(`{"received":-1}`)}},
		"counts that go back": {pps, map[string]func(int) string{"sink.counts": func(n int) string {
			return `{"received":` + strconv.Itoa(1000-n%7) + `}`
		}}},
		"another mind each time": {pps, map[string]func(int) string{"sink.counts": func(n int) string {
			if n%2 == 0 {
				return `{"method":"none","received":0,"exact":true}`
			}
			return ""
		}}},
		"a host's name of 700 kB": {pps, map[string]func(int) string{"info": always(`{"host":` + long + `,"kernel":` + long + `}`)}},
		"65,536 CPUs": {pps, map[string]func(int) string{"cpu": func(n int) string {
			var text strings.Builder
			for i := range 15_000 {
				text.WriteString("cpu" + strconv.Itoa(i) + " " + strconv.Itoa(n) + " 0 0 0 0 0 0 0 0 0\n")
			}
			return strconv.Quote(text.String())
		}}},
		"100,000 counters": {pps, map[string]func(int) string{"counters": func(n int) string {
			return strings.NewReplacer("[", "{", "]", "}").Replace(many(50_000, func(i int) string {
				return `"rx_` + strconv.Itoa(i) + `_dropped":` + strconv.Itoa(i+n)
			}))
		}}},
		"a generator back in time": {back, map[string]func(int) string{
			"gen.wait": always(`{"sent":5,"done":true,"result":{"method":"af_packet","sent":5,"elapsed":-1,"slipped":-1,` +
				`"batch_delay":-1}}`)}},
		"a generator beyond numbers": {append(back, "--two-way")[:len(back)], map[string]func(int) string{
			"alone.generator": always(`{"pps":1e308}`), "alone.receiver": always(`{"pps":1e308,"sent":18446744073709551615,"elapsed":1}`)}},
		"no result": {back, map[string]func(int) string{"gen.wait": always(`{"result":null}`)}},
		"a server's bytes": {[]string{"stream", "--repeat", "1"}, map[string]func(int) string{
			"tcp.counts": func(n int) string { return `{"received":` + strconv.FormatUint(most>>(n%2), 10) + `}` }}},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := *h
			a := &absurd{say: c.say}
			hostile.agent = a.agent().start(t, h.guest, "10.50.0.2:0", h.agent)
			before, began := h.state(), time.Now()
			code, stdout, stderr := program(t, hostile.benchmark(c.bench...)...)
			took := time.Since(began)
			t.Logf("exit code %d after %v, %d and %d bytes: %.300s", code, took.Round(10*time.Millisecond), len(stdout),
				len(stderr), stderr)
			if took > time.Minute {
				t.Errorf("it took %v", took)
			}
			if len(stdout) > 256<<10 || len(stderr) > 4<<10 {
				t.Errorf("%d bytes were printed, and %d of errors", len(stdout), len(stderr))
			}
			if code == outcome.CodeOK && stdout == "" || strings.Contains(stderr, "unsupported value") {
				t.Errorf("exit code %d: %.300s", code, stderr)
			}
			if text := stdout; text != "" {
				run := result(t, text)
				for i, s := range run.Samples {
					if s.Seconds < 0 || s.PPS < 0 || s.PPS > 1e10 || s.SlippedNs > 1e15 || s.Received > 1e15 ||
						s.Duplicated > 1e15 || s.Bytes > 1e15 {
						t.Errorf("trial %d is taken for measured: %+v", i+1, s)
					}
				}
			}
			if after := h.state(); after != before {
				t.Errorf("left behind: %s\nbefore: %s", after, before)
			}
		})
	}
}
