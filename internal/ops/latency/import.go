package latency

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// maxThreads bounds the threads of all files together, each of which takes some 500 bytes of a result.
const maxThreads = 65_536

// Import reads outputs of measuring tools that exist already, each as a run. tool is one of wakeup.Programs; empty: it
// is recognised, the same for all files.
func Import(files []string, tool, name, version string) (*wakeup.File, error) {
	f := &wakeup.File{Schema: wakeup.Schema, Name: name, Environment: measure.Environment{MPPS: version},
		Asked: wakeup.Asked{Runs: len(files)}, Runs: []wakeup.Run{}, Worst: []wakeup.Wakeup{}, Loads: []wakeup.Load{},
		Warnings: []measure.Warning{{Code: "imported", Text: "read from outputs that mpps did not take: machine, " +
			"load, priority and interval are those of whoever took them, and no causes were counted"}}}
	threads := 0
	for n, file := range files {
		text, written, err := readOutput(file)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("import %w", outcome.FileError(err)),
				"--import takes a file that cyclictest, oslat or rtla wrote")
		}
		out, err := wakeup.Import(tool, text)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("import %s: %w", file, err),
				"cyclictest (--json, -h, or its summary), oslat (--json or text), rtla timerlat (hist or top) and "+
					"rtla osnoise hist are read; --tool names one")
		}
		if n > 0 && out.Tool != f.Tool.Name {
			return nil, outcome.Usage(fmt.Errorf("import %s: it is of %s, %s of %s", file, out.Tool, files[0],
				f.Tool.Name), "runs of one tool belong together")
		}
		if n == 0 {
			f.Tool = describe(out)
		}
		if out.Summary {
			f.Warn(measure.Warning{Code: "no-histogram", Text: "a summary of " + out.Tool + " has no histogram: " +
				"longest, mean and count are its own, and percentiles are no more than the longest",
				Hint: "cyclictest -q -h 1000 --json=FILE, or rtla timerlat hist"})
		}
		if threads += len(out.Threads); threads > maxThreads {
			return nil, outcome.Usage(fmt.Errorf("import %s: %d threads with it, expected at most %d in all files",
				file, threads, maxThreads), "import fewer files at once")
		}
		r := wakeup.Run{Started: written, Threads: []wakeup.Thread{}, Slices: []wakeup.Slice{}}
		r.Add(n+1, &out.Output, written, written, 0, wakeup.Clock{})
		f.Runs = append(f.Runs, r)
	}
	f.Started = f.Runs[0].Started
	f.Finish()
	return f, nil
}

// describe returns the tool of an imported output.
func describe(i *wakeup.Imported) wakeup.Tool {
	t := wakeup.Tool{Name: i.Tool, Version: i.Version}
	if i.Tool == "osnoise" { // which mpps does not start
		t.What = "how long a busy kernel thread was interrupted (osnoise tracer), in whole µs; nothing sleeps, and " +
			"percentiles are of interruptions"
	}
	for _, p := range wakeup.Programs("mpps") {
		if p.Name == i.Tool {
			t.What = p.What
		}
	}
	return t
}

// readOutput reads a regular file of at most wakeup.MaxText bytes, and when it was written.
func readOutput(name string) (text string, written time.Time, err error) {
	f, err := ops.OpenFile(name)
	if err != nil {
		return "", written, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var info os.FileInfo
	if info, err = f.Stat(); err != nil {
		return "", written, err
	}
	all, err := io.ReadAll(io.LimitReader(f, wakeup.MaxText+1))
	if err == nil && len(all) > wakeup.MaxText {
		err = fmt.Errorf("%s: larger than %d MiB", name, wakeup.MaxText>>20)
	}
	return string(all), info.ModTime().UTC(), err
}
