package measure

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// SchemaSizes is the version of the format of saved searches over frame sizes.
const SchemaSizes = "mpps.sizes/1"

// EthernetSizes returns the frame sizes that RFC 2544 section 9.1 asks for on Ethernet, in bytes with the FCS.
func EthernetSizes() []int { return []int{64, 128, 256, 512, 1024, 1280, 1518} }

// maxSizes is the most searches of one file.
const maxSizes = 64

// WireOverhead is what each frame takes on an Ethernet wire besides its own bytes: preamble, start of frame and the
// smallest gap (IEEE 802.3 clauses 3.1.1 and 4.4.2).
const WireOverhead = 7 + 1 + 12

// WireBits returns the bits per second that frames of this size, in bytes with the FCS, take on an Ethernet wire. A
// link of 10 Gbit/s is full at 10e9.
func WireBits(pps float64, frameBytes int) float64 { return pps * 8 * float64(frameBytes+WireOverhead) }

// Sizes are searches over the same path, one for each of several frame sizes.
type Sizes struct {
	Schema   string    `json:"schema"`
	Name     string    `json:"name,omitempty"`      // a label for people
	LineRate float64   `json:"line_rate,omitempty"` // of the link, bit/s; 0: not known
	Started  time.Time `json:"started"`
	Searches []*Search `json:"searches"` // in the order asked for; fewer where the run ended early
	Partial  bool      `json:"partial"`  // the run ended before the last size
	Warnings []Warning `json:"warnings"`
}

// Warn adds a warning unless there is one with its code.
func (s *Sizes) Warn(w Warning) { s.Warnings = addWarning(s.Warnings, w) }

// Valid reports whether the device under test, and not the measuring gear, set every result.
func (s *Sizes) Valid() bool {
	return !slices.ContainsFunc(s.Searches, func(one *Search) bool { return !one.Valid() })
}

// DecodeSizes reads searches over frame sizes: bare ones, or a --json answer with them as the result.
func DecodeSizes(reader io.Reader) (*Sizes, error) {
	s, err := decode[Sizes](reader, SchemaSizes)
	if err != nil {
		return nil, err
	}
	if len(s.Searches) == 0 || len(s.Searches) > maxSizes || slices.Contains(s.Searches, nil) {
		return nil, fmt.Errorf("%w: expected 1 to %d searches", ErrNotARun, maxSizes)
	}
	if !(s.LineRate >= 0 && s.LineRate <= 1e15) {
		return nil, fmt.Errorf("%w: a line rate of %g bit/s", ErrNotARun, s.LineRate)
	}
	for _, one := range s.Searches {
		if one.FrameBytes < 0 || one.FrameBytes > 1<<16 {
			return nil, fmt.Errorf("%w: frames of %d bytes", ErrNotARun, one.FrameBytes)
		}
		if err := one.Check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}
