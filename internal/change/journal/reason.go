package journal

import (
	"strings"

	"mpps/internal/model/setting"
)

// Reason is why a rollback left a value as it was.
type Reason string

// The reasons.
const (
	AsBefore Reason = "as-before" // it is what it was before
	Needed   Reason = "needed"    // by the open transaction in LeftFor
	Gone     Reason = "gone"      // its object is gone, or was reset
	Drifted  Reason = "drifted"   // somebody else has changed it
)

// oldReasons are the texts from which the reason is taken in journals without Reason. Nothing else reads them.
var oldReasons = []struct {
	words  string
	reason Reason
}{
	{"is as it was before", AsBefore}, {"still needed by ", Needed}, {"nothing to restore", Gone},
	{"changed by somebody else", Drifted},
}

// upgrade fills in what journals of earlier versions only say in words.
func (r *Record) upgrade() {
	if r.Event == Left && r.Reason == "" {
		for _, old := range oldReasons {
			if rest, found := strings.CutPrefix(r.Why, old.words); found {
				if r.Reason = old.reason; r.Reason == Needed {
					r.LeftFor = rest
				}
			}
		}
	}
	if r.Address == nil || r.Address.Kind != setting.Domain {
		return
	}
	for _, reading := range []*setting.Reading{r.Before, r.After, r.Found} {
		// Of definition values, only those had a reason, besides read-only ones.
		if reading != nil && reading.State == setting.Known && reading.Why != "" && !reading.ReadOnly {
			reading.AsFound = true
		}
	}
}
