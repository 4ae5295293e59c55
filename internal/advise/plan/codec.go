package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/strictjson"
)

// Bounds of a plan file. A plan for 200 guests of 64 vCPUs on a host with 8 NICs of 64 queues has fewer than 30,000
// changes of about 600 bytes.
const (
	maxBytes   = 64 << 20
	maxChanges = 100_000
	maxValue   = 64 << 10
)

// ErrFormat marks a file that is not a plan this version can read.
var ErrFormat = errors.New("not a usable plan")

// Encode writes a plan as indented JSON.
func Encode(w io.Writer, p *Plan) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(p); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// Decode reads a plan: a file from Encode, or the --json output of plan with the plan as its result. It refuses another
// schema, unknown kinds of addresses, values that are not canonical, more than the bounds allow, and a digest that does
// not match the content. It ignores unknown fields.
func Decode(r io.Reader) (*Plan, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read plan: %w", err)
	case len(text) > maxBytes:
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrFormat, maxBytes>>20)
	}
	var head struct {
		Schema string          `json:"schema"`
		Result json.RawMessage `json:"result"`
	}
	var kind *json.UnmarshalTypeError
	if err := strictjson.Unmarshal(text, &head); errors.As(err, &kind) && kind.Field == "" {
		return nil, fmt.Errorf("%w: expected a JSON object, found %s", ErrFormat, kind.Value)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("%w: expected schema %s, found %q", ErrFormat, Schema, head.Schema)
	}
	if len(head.Result) > 0 {
		text = head.Result
	}
	var p Plan
	if err := strictjson.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return &p, nil
}

func (p *Plan) check() error {
	if n := len(p.Changes) + len(p.Consent); n > maxChanges {
		return fmt.Errorf("%d changes; expected at most %d", n, maxChanges)
	}
	if err := p.Goal.Check(); err != nil {
		return err
	}
	if p.Watched != nil && p.Watched.Seconds <= 0 {
		return fmt.Errorf("watched: %v seconds; expected more than 0", p.Watched.Seconds)
	}
	seen := map[setting.Address]bool{}
	for i, c := range p.Changes {
		if seen[c.Address] {
			return fmt.Errorf("change %d: %s is changed twice", i+1, c.Address)
		}
		seen[c.Address] = true
		if err := c.check(); err != nil {
			return fmt.Errorf("change %d: %w", i+1, err)
		}
		if !p.Goal.Consents(c.Risk) {
			return fmt.Errorf("change %d: %s has risk %s, to which the plan's goal does not consent", i+1, c.Address,
				c.Risk)
		}
	}
	for i, c := range p.Consent {
		if err := c.check(); err != nil {
			return fmt.Errorf("change %d that needs consent: %w", i+1, err)
		}
	}
	if want := p.digest(); p.Digest != want {
		return fmt.Errorf("its digest does not fit its content (expected %.12s…, found %.12s…): it was edited or "+
			"damaged", want, p.Digest)
	}
	return nil
}

func (c Change) check() error {
	info, known := setting.Kinds[c.Address.Kind]
	if !known || c.Address.Kind == setting.Fact {
		return fmt.Errorf("address %s: nothing writes values of kind %q", c.Address, c.Address.Kind)
	}
	if _, err := c.Stage.MarshalText(); err != nil {
		return fmt.Errorf("%s: %w", c.Address, err)
	}
	if !slices.Contains(goal.Risks(), c.Risk) {
		return fmt.Errorf("%s: unknown risk %q", c.Address, c.Risk)
	}
	switch c.To.State {
	case setting.Known:
		most := maxValue
		if c.Address.Kind.IsText() {
			most = setting.MaxFile
		}
		if len(c.To.Value) > most {
			return fmt.Errorf("%s: value of %d bytes; expected at most %d", c.Address, len(c.To.Value), most)
		}
		if canonical, err := info.Canonical(c.To.Value); err != nil {
			return fmt.Errorf("%s: %w", c.Address, err)
		} else if canonical != c.To.Value {
			return fmt.Errorf("%s: value %q is not in its canonical form %q", c.Address, c.To.Value, canonical)
		}
	case setting.Absent:
		if !info.CanAbsent {
			return fmt.Errorf("%s: a %s cannot be removed", c.Address, info.What)
		}
	default:
		return fmt.Errorf("%s: no value to write", c.Address)
	}
	if c.From.State == setting.Unknown {
		return fmt.Errorf("%s: a value that could not be read is never changed", c.Address)
	}
	if !c.Want.Met(c.To) {
		return fmt.Errorf("%s: writing %s would not give what is wanted, %s", c.Address, c.To, c.Want)
	}
	return nil
}
