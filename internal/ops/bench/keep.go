package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	Runs bool   // in Runs below the root
	File string // and in this file, if it is set
}

// Runs is the folder of kept results, below the root.
const Runs = "var/lib/mpps/runs"

// Save saves a result and returns the names of its files. That it could not be kept in Runs is a warning; the file that
// the
// user named must be written.
func Save[T any](env *ops.Env, k Keep, result T, started time.Time, what string, warn func(outcome.Warning)) ([]string,
	error) {
	var text bytes.Buffer
	if err := measure.Encode(&text, facts.Whole(result)); err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	var saved []string
	if k.Runs {
		dir := filepath.Join(env.Root, Runs)
		file := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.json", started.Format("20060102T150405"), what, os.Getpid()))
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = ops.ReplaceFile(file, text.Bytes())
		}
		if err != nil {
			warn(outcome.Warning{Code: "not-kept", Text: "the run could not be kept: " + err.Error(),
				Hint: "--keep=false keeps none"})
		} else {
			saved = append(saved, file)
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

// Writable refuses files, by their flags, that cannot be written, before hours are spent.
func Writable(files map[string]string) error {
	for flag, name := range files {
		if name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			return outcome.Usage(fmt.Errorf("%s %s: expected a file in a directory that is there", flag, name), "")
		}
	}
	return nil
}

// maxSecret bounds what is read of a secret's file, in bytes.
const maxSecret = 64 << 10

// Secret returns the text of a secret's file without the white space around it; nil for no file.
func Secret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	secret, err := readSecret(file)
	if err != nil {
		return nil, outcome.Failed(err, "any text will do: the same file on both sides")
	}
	return secret, nil
}

func readSecret(file string) ([]byte, error) {
	f, err := ops.OpenFile(file)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(text) > maxSecret {
		err = fmt.Errorf("%s: larger than %d bytes", file, maxSecret)
	}
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	secret := bytes.TrimSpace(text)
	if len(secret) == 0 {
		return nil, errors.New("secret file " + file + ": expected a text, found none")
	}
	return secret, nil
}
