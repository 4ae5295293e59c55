package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mpps/internal/strictjson"
)

// ErrNotAResult is wrapped by every error of Decode about the contents of the file.
var ErrNotAResult = errors.New("not a result of tune")

// Decode reads a result, as written by 'mpps tune -o' or inside the envelope of 'mpps tune --json'.
func Decode(reader io.Reader) (*Result, error) {
	text, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Schema string          `json:"schema"`
		Result json.RawMessage `json:"result"`
	}
	if err := strictjson.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAResult, err)
	}
	if len(answer.Result) > 0 {
		text = answer.Result
	}
	var r Result
	switch err := strictjson.Unmarshal(text, &r); {
	case r.Schema != Schema:
		return nil, fmt.Errorf("%w: schema %q, expected %q", ErrNotAResult, r.Schema, Schema)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotAResult, err)
	}
	return &r, nil
}
