package lab

import (
	"encoding/json"
	"os"
)

// Stat is a line of the file in MPPS_LAB_STATS: an event of a lab host.
type Stat struct {
	Event   string  `json:"event"`             // boot, restore, retry or death
	Cause   string  `json:"cause,omitempty"`   // of a retry or death
	Seconds float64 `json:"seconds,omitempty"` // of a boot or restore
}

const (
	StatBoot    = "boot"
	StatRestore = "restore"
	StatRetry   = "retry"
	StatDeath   = "death" // by Death
)

// Record appends a line to the file in MPPS_LAB_STATS, if it is set. Each line is one write to a file opened for
// appending, so lines of several processes do not mix. Statistics decide nothing, so write errors are ignored.
func Record(event, cause string, seconds float64) {
	name := os.Getenv("MPPS_LAB_STATS")
	if name == "" {
		return
	}
	line, err := json.Marshal(Stat{event, cause, seconds})
	if err != nil {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(line, '\n'))
}
