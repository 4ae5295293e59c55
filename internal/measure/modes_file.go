package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mpps/internal/strictjson"
)

// SchemaCampaign is the version of the format of an unfinished campaign: lines of JSON, first the plan, then one sample
// per line in the order taken. Each line is written in one go; a truncated last line is ignored.
const SchemaCampaign = "mpps.campaign/1"

// CampaignLine is one line of such a file.
type CampaignLine struct {
	Schema   string         `json:"schema"`
	Campaign *ModesCampaign `json:"campaign,omitempty"` // only in the first line
	Cell     *ModeCell      `json:"cell,omitempty"`     // in all others
}

// EncodeCampaign writes the first line.
func EncodeCampaign(w io.Writer, c *ModesCampaign) error {
	return encodeLine(w, CampaignLine{Schema: SchemaCampaign, Campaign: c})
}

// EncodeCell writes the line of one sample.
func EncodeCell(w io.Writer, cell *ModeCell) error {
	return encodeLine(w, CampaignLine{Schema: SchemaCampaign, Cell: cell})
}

func encodeLine(w io.Writer, line CampaignLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ErrNotACampaign is wrapped by every error about the content of a campaign file.
var ErrNotACampaign = errors.New("not a campaign file")

// DecodeCampaign reads an unfinished campaign. whole is the number of bytes in complete lines; whatever follows is
// truncated and to be overwritten.
func DecodeCampaign(r io.Reader) (c *ModesCampaign, whole int64, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(text) > maxFile {
		return nil, 0, fmt.Errorf("%w: larger than %d MiB", ErrNotACampaign, maxFile>>20)
	}
	for n := 1; ; n++ {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			break
		}
		var l CampaignLine
		if err := strictjson.Unmarshal(line, &l); err != nil {
			return nil, 0, fmt.Errorf("%w: line %d: %w", ErrNotACampaign, n, err)
		}
		switch {
		case l.Schema != SchemaCampaign:
			return nil, 0, fmt.Errorf("%w: line %d: found schema %q, expected %q", ErrNotACampaign, n, l.Schema,
				SchemaCampaign)
		case n == 1 && l.Campaign != nil:
			c = l.Campaign
			if err := c.Plan.Check(); err != nil {
				return nil, 0, fmt.Errorf("%w: the plan: %w", ErrNotACampaign, err)
			}
		case n > 1 && l.Cell != nil:
			if err := c.add(*l.Cell); err != nil {
				return nil, 0, fmt.Errorf("%w: line %d: %w", ErrNotACampaign, n, err)
			}
		default:
			return nil, 0, fmt.Errorf("%w: line %d: expected the plan first, then samples", ErrNotACampaign, n)
		}
		whole += int64(len(line)) + 1
		text = rest
	}
	if c == nil {
		return nil, 0, fmt.Errorf("%w: found no whole line", ErrNotACampaign)
	}
	return c, whole, nil
}

// add adds a sample from a file if it belongs to the plan.
func (c *ModesCampaign) add(cell ModeCell) error {
	_, w, err := c.Plan.Of(cell.Turn)
	if err != nil {
		return err
	}
	if cell.Block < 0 || cell.Block >= c.Plan.Max {
		return fmt.Errorf("found a sample of block %d, expected 0 to %d", cell.Block, c.Plan.Max-1)
	}
	if s := cell.Sample; s != nil {
		if v := s.Value(w.Kind); !(v >= 0 && v <= 1e15) {
			return fmt.Errorf("found %g %s", v, w.Kind.Unit())
		}
	}
	c.Cells = append(c.Cells, cell)
	return nil
}

// ErrModes is wrapped if a campaign over NIC modes, which holds many runs, was found instead of a run.
var ErrModes = errors.New("a campaign over NIC modes, not a single run")

// DecodeModes reads a campaign's result: a bare one, or a --json answer of bench with it as the result.
func DecodeModes(reader io.Reader) (*Modes, error) {
	m, err := decode[Modes](reader, SchemaModes)
	if err != nil {
		return nil, err
	}
	if len(m.Runs) != len(m.Rows) {
		return nil, fmt.Errorf("%w: %d rows and %d runs: expected a run for each row", ErrNotARun, len(m.Rows),
			len(m.Runs))
	}
	for i := range m.Runs {
		if err := m.Runs[i].check(); err != nil {
			return nil, err
		}
	}
	return m, nil
}
