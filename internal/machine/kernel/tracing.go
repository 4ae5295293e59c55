package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// tracingFolder is the mount point of tracefs; older systems have it below debugfs only.
const tracingFolder = "sys/kernel/tracing"

// traceEvents reads and writes the events of the main trace buffer (Documentation/trace/events.rst, set_event).
type traceEvents struct{ m *tree.Tree }

// noEvents is the value for an empty list.
const noEvents = "none"

func (t traceEvents) Read(_ context.Context, a setting.Address) setting.Reading {
	if a.Path != "set_event" {
		return setting.CouldNotTell("expected set_event, found " + a.Path)
	}
	text, err := t.m.Read(tracingFolder + "/set_event")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return setting.Missing("tracefs is not mounted at /" + tracingFolder)
		}
		return tree.Unreadable("/"+tracingFolder+"/set_event", err)
	}
	return setting.Value(eventList(text))
}

// eventList returns the canonical form of set_event, which has a line "system:event" for each event.
func eventList(text string) string {
	events := strings.Fields(text)
	events = slices.DeleteFunc(events, func(e string) bool { return e == noEvents })
	if len(events) == 0 {
		return noEvents
	}
	slices.Sort(events)
	return strings.Join(slices.Compact(events), " ")
}

// Write clears the list by opening the file with O_TRUNC (kernel/trace/trace_events.c, ftrace_event_set_open), then
// adds the events one by one.
func (t traceEvents) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		if a.Path != "set_event" {
			return errors.New("expected set_event")
		}
		ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
		defer cancel()
		return setting.Within(ctx, func() error {
			f, err := t.m.Root.OpenFile(tracingFolder+"/set_event", os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				return err
			}
			var errs []error
			for _, event := range strings.Fields(eventList(value)) {
				if event == noEvents {
					continue
				}
				if _, err := f.WriteString(event + "\n"); err != nil {
					errs = append(errs, fmt.Errorf("event %s: %w", event, err))
				}
			}
			return errors.Join(append(errs, f.Close())...)
		})
	})
}
