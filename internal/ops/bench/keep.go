package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Keep is where a result is saved.
type Keep struct {
	Runs bool   // in the folder Runs below the root
	File string // in this file too; empty: none
}

// Runs is the folder of kept results, below the root.
const Runs = "var/lib/mpps/runs"

// Save saves a result and returns the names of its files. A failure to keep it in Runs is a warning; a failure to write
// the file that the user named is an error.
func Save[T any](env *ops.Env, k Keep, result T, started time.Time, what string, warn func(outcome.Warning)) ([]string,
	error) {
	var text bytes.Buffer
	if err := measure.Encode(&text, facts.NonNil(result)); err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	var saved []string
	if k.Runs {
		file := fmt.Sprintf("%s/%s-%s-%d.json", Runs, started.Format("20060102T150405"), what, os.Getpid())
		if err := env.WriteState(file, text.Bytes()); err != nil {
			warn(outcome.Warning{Code: "not-kept", Text: "the run could not be kept: " + err.Error(),
				Hint: "--keep=false keeps none"})
		} else {
			saved = append(saved, filepath.Join(env.Root, file))
		}
	}
	if k.File != "" {
		if err := ops.ReplaceFile(k.File, text.Bytes()); err != nil {
			return saved, outcome.Failed(fmt.Errorf("write the run: %w", err), "")
		}
		saved = append(saved, k.File)
	}
	return saved, nil
}
