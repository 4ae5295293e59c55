package audit

import (
	"bytes"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// FuzzAudit: whatever a snapshot says that can be read, it can be audited.
func FuzzAudit(f *testing.F) {
	h := host(f, nil)
	var text bytes.Buffer
	must.Do(f, facts.Write(&text, h, "test"))
	f.Add(text.Bytes())
	f.Add([]byte(`{"schema":"mpps.snapshot/1","result":{"guests":[{"name":"a","managed":true,"state":"running","vcpus":9,"interfaces":[{"mac":"1","type":"bridge"}]}],"nics":[{"name":"e","up":true}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := facts.ReadSnapshot(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, g := range []goal.Goal{goal.Unlimited(), {Latency: 20000}, {PPS: 2e5, Guest: "a"}} {
			Run(h, g, knob.Catalogue())
		}
	})
}
