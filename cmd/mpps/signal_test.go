package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestSignalEndsReading: a command that only reads ends within two seconds of a signal, whatever it waits for. Others
// end when they have undone what they had begun.
func TestSignalEndsReading(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"reads": true, "writes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flag atomic.Bool
			ctx, signal := context.WithCancel(t.Context())
			undone := make(chan struct{})
			began := time.Now()
			err := untilSignal(ctx, &flag, func() error {
				flag.Store(reads)
				signal()
				if reads {
					<-undone // never: the kernel does not return
				}
				time.Sleep(2 * patience)
				return nil
			})
			took := time.Since(began)
			if reads && (!errors.Is(err, context.Canceled) || took > 2*time.Second) {
				t.Errorf("%v after %v", err, took)
			}
			if !reads && (err != nil || took < 2*patience) {
				t.Errorf("%v after %v, expected it to be waited for", err, took)
			}
		})
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	a := &app{stdin: new(bytes.Buffer), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	root := a.command()
	manner := func(name string) string {
		found, rest, err := root.Find(strings.Fields(name)[1:])
		must.Hold(t, err == nil && len(rest) <= 0 && found.CommandPath() == name, "%s: %v, %v", name, rest, err)
		return mannerOf(found)
	}
	for _, reads := range []string{"mpps inspect", "mpps snapshot", "mpps snapshot diff", "mpps audit", "mpps explain",
		"mpps plan", "mpps place", "mpps status", "mpps verify", "mpps history", "mpps report", "mpps bench compare",
		"mpps fleet audit", "mpps domain show", "mpps domain render"} {
		if manner := manner(reads); manner != onlyReads && manner != readsWidely {
			t.Errorf("%s only reads", reads)
		}
	}
	for _, writes := range []string{"mpps apply", "mpps rollback", "mpps tune", "mpps restore", "mpps confirm"} {
		if manner := manner(writes); manner == onlyReads || manner == readsWidely {
			t.Errorf("%s writes", writes)
		}
	}
}
