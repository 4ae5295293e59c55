package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/strictjson"
)

// attestFile has people's statements about what the operating system cannot see.
const attestFile = "var/lib/mpps/attest.json"

const attestSchema = "mpps.attest/1"

// attestFormat is the format of the file.
type attestFormat struct {
	Schema   string                       `json:"schema"`
	Attested map[string]facts.Attestation `json:"attested"`
}

// Attested returns people's statements by ID; an empty map if there are none.
func (m *Machine) Attested() (map[string]facts.Attestation, error) {
	text, err := m.Read(attestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]facts.Attestation{}, nil
	}
	if err != nil {
		return nil, err
	}
	var a attestFormat
	if err := strictjson.Unmarshal([]byte(text), &a); err != nil {
		return nil, fmt.Errorf("/%s: %w", attestFile, err)
	}
	if a.Schema != attestSchema {
		return nil, fmt.Errorf("/%s: expected schema %q, found %q", attestFile, attestSchema, a.Schema)
	}
	if a.Attested == nil {
		a.Attested = map[string]facts.Attestation{}
	}
	return a.Attested, nil
}

// Attest records a person's statement, or removes it if the value is empty. It returns the former one.
func (m *Machine) Attest(id, value, by string, at time.Time) (before facts.Attestation, err error) {
	all, err := m.Attested()
	if err != nil {
		return before, err
	}
	before = all[id]
	if value == "" {
		delete(all, id)
	} else {
		all[id] = facts.Attestation{Value: value, By: by, At: at.UTC().Truncate(time.Second)}
	}
	if len(all) == 0 {
		return before, m.Remove(attestFile)
	}
	text, err := json.MarshalIndent(attestFormat{attestSchema, all}, "", "  ")
	if err != nil {
		return before, err
	}
	if err := m.Root.MkdirAll(path.Dir(attestFile), 0o755); err != nil {
		return before, err
	}
	return before, m.Replace(attestFile, strings.TrimSpace(string(text))+"\n")
}

// readAttestations reads people's statements into h.Attested.
func (m *Machine) readAttestations(_ context.Context, h *facts.Host) {
	all, err := m.Attested()
	if err != nil {
		tree.AddUnseen(h, "what was attested", err)
		return
	}
	if len(all) > 0 {
		h.Attested = all
	}
}
