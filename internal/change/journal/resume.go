package journal

import (
	"encoding/json"
	"fmt"

	"mpps/internal/model/goal"
)

// ResumeSchema is the version of what a header keeps for going on. A header with another one is read and rolled back
// like any; it only cannot be resumed.
const ResumeSchema = "mpps.resume/1"

// Resume is what a later command needs to go on with a plan of which a part was not possible at once: to look at the
// machine again with the same goal. It holds what was asked for, never what was found.
type Resume struct {
	Schema      string      `json:"schema"`
	Goal        goal.Goal   `json:"goal"`
	RuntimeOnly bool        `json:"runtime_only,omitempty"` // nothing was to outlast the kernel's own memory
	Site        string      `json:"site,omitempty"`         // digest of the site file; empty: there was none
	Kernel      string      `json:"kernel,omitempty"`       // release that the next boot is to have; empty: not known
	Later       []Postponed `json:"later,omitempty"`
}

// Postponed is what can be planned only once something has happened.
type Postponed struct {
	After string   `json:"after"` // "reboot of the host"
	IDs   []string `json:"ids"`   // of knobs
	Why   string   `json:"why"`
}

// Encode is the value of Header.Resume.
func (r Resume) Encode() (json.RawMessage, error) {
	r.Schema = ResumeSchema
	return json.Marshal(r)
}

// Resume reads what the header keeps for going on; nil where it keeps nothing.
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
	if err := json.Unmarshal(t.Header.Resume, r); err != nil {
		return nil, fmt.Errorf("what transaction %s keeps for going on cannot be read: %w", t.Header.TX, err)
	}
	if err := r.Goal.Check(); err != nil {
		return nil, fmt.Errorf("the goal of transaction %s: %w", t.Header.TX, err)
	}
	return r, nil
}

// Chain is a transaction and those that it went on with, the first of them first. One that is not in the journal any
// more ends it.
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
