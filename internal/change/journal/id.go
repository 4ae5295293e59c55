package journal

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"
)

// An ID sorts by the time at which its transaction began: "20261120T210912.123456Z-3f9a1c".
var idForm = regexp.MustCompile(`^\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}$`)

const idTime = "20060102T150405.000000Z"

// newID makes the ID of a transaction that begins now. It sorts behind the last one even where the clock went back,
// because what was built on what is told by the order of the IDs.
func newID(now time.Time, last string) (string, error) {
	var random [3]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("random part of a transaction's name: %w", err)
	}
	now = now.UTC()
	if len(last) >= len(idTime) {
		if before, err := time.Parse(idTime, last[:len(idTime)]); err == nil &&
			!now.Truncate(time.Microsecond).After(before) {
			now = before.Add(time.Microsecond)
		}
	}
	return now.Format(idTime) + "-" + hex.EncodeToString(random[:]), nil
}
