package lab

import (
	"encoding/json"
	"os"
)

// Stat is one line of the file that MPPS_LAB_STATS names: what happened to a lab host.
type Stat struct {
	Event   string  `json:"event"`             // boot, restore, retry or death
	Cause   string  `json:"cause,omitempty"`   // of a retry or death
	Seconds float64 `json:"seconds,omitempty"` // of a boot or restore
}

const (
	StatBoot    = "boot"
	StatRestore = "restore"
	StatRetry   = "retry"
	StatDeath   = "death"
)

// Record appends a line to the file that MPPS_LAB_STATS names, where it names one. Lines of several processes do not
// mix: each is one write to a file that is opened for appending. Statistics decide nothing, so a file that cannot be
// written is left out.
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
