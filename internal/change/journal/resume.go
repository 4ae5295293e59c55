package journal

import (
	"encoding/json"
	"fmt"

	"mpps/internal/model/goal"
	"mpps/internal/strictjson"
)

// ResumeSchema is the version of the resume data. A transaction with another version can be read and rolled back, but
// not resumed.
const ResumeSchema = "mpps.resume/1"

// Resume is what a later command needs to continue a plan of which a part had to wait: it inspects the machine again
// with the same goal. It holds the request, never the findings.
type Resume struct {
	Schema      string      `json:"schema"`
	Goal        goal.Goal   `json:"goal"`
	RuntimeOnly bool        `json:"runtime_only,omitempty"` // nothing was to be made persistent
	Site        string      `json:"site,omitempty"`         // digest of the site file; empty: none
	Kernel      string      `json:"kernel,omitempty"`       // expected kernel release after the next boot; empty: unknown
	Later       []Postponed `json:"later,omitempty"`
}

// Postponed is what can only be planned after some event.
type Postponed struct {
	After string   `json:"after"` // "reboot of the host"
	IDs   []string `json:"ids"`   // of knobs
	Why   string   `json:"why"`
}

// Encode returns the value of Header.Resume.
func (r Resume) Encode() (json.RawMessage, error) {
	r.Schema = ResumeSchema
	return json.Marshal(r)
}

// Resume returns the header's resume data, nil if it has none.
func (t *Transaction) Resume() (*Resume, error) {
	if len(t.Header.Resume) == 0 {
		return nil, nil
	}
	var version struct{ Schema string }
	if err := json.Unmarshal(t.Header.Resume, &version); err != nil {
		return nil, fmt.Errorf("what transaction %s keeps for going on cannot be read: %w", t.Header.TX, err)
	}
	if version.Schema != ResumeSchema {
		return nil, fmt.Errorf("what transaction %s keeps for going on is %s, this mpps reads %s", t.Header.TX,
			version.Schema, ResumeSchema)
	}
	r := &Resume{}
	if err := strictjson.Unmarshal(t.Header.Resume, r); err != nil {
		return nil, fmt.Errorf("what transaction %s keeps for going on cannot be read: %w", t.Header.TX, err)
	}
	if err := r.Goal.Check(); err != nil {
		return nil, fmt.Errorf("the goal of transaction %s: %w", t.Header.TX, err)
	}
	return r, nil
}

// Chain returns a transaction and those it resumes, oldest first. It ends at one that is not in the journal any more.
func (l *Ledger) Chain(t *Transaction) []*Transaction {
	chain := []*Transaction{t}
	for chain[0].Header.Follows != "" && len(chain) <= len(l.Transactions) {
		before, err := l.Find(chain[0].Header.Follows)
		if err != nil {
			break
		}
		chain = append([]*Transaction{before}, chain...)
	}
	return chain
}
