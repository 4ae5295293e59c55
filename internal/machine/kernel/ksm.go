package kernel

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

const ksmFolder = "kernel/mm/ksm"

// PageMerging returns the state of KSM; nil if the kernel has none.
func PageMerging(m *tree.Tree) *facts.KSM {
	run := m.Number(path.Join(tree.Sys, ksmFolder, "run"), -1)
	if run < 0 {
		return nil
	}
	return &facts.KSM{Run: run, Shared: uint64(max(0, m.Number(path.Join(tree.Sys, ksmFolder, "pages_shared"), 0)))}
}

// ksm reads and writes the switches of page merging in the order that the kernel requires.
type ksm struct{ m *tree.Tree }

// The values of run (mm/ksm.c): KSM_RUN_STOP, KSM_RUN_MERGE, KSM_RUN_UNMERGE.
const (
	ksmStop    = "0"
	ksmMerge   = "1"
	ksmUnmerge = "2"
)

func (k ksm) known(a setting.Address) bool { return a.Path == "run" || a.Path == "merge_across_nodes" }

func (k ksm) Read(_ context.Context, a setting.Address) setting.Reading {
	if !k.known(a) {
		return setting.CouldNotTell("expected run or merge_across_nodes, found " + a.Path)
	}
	return k.m.Value(tree.Sys, path.Join(ksmFolder, a.Path), setting.Kinds[setting.KSM].Canonical)
}

// Write writes run or merge_across_nodes. The kernel refuses the latter with EBUSY while any page is shared (mm/ksm.c,
// merge_across_nodes_store), and pages stay merged when merging is stopped. So before run=0 and before
// merge_across_nodes it unmerges them with run=2, which needs memory for every copy and may fail with ENOMEM, and waits
// until no page is shared. A write of merge_across_nodes restores run.
func (k ksm) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		if !k.known(a) {
			return errors.New("expected run or merge_across_nodes")
		}
		ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
		defer cancel()
		if a.Path == "run" {
			if value == ksmStop {
				if err := k.unmerge(ctx); err != nil {
					return err
				}
			}
			return k.set(ctx, "run", value)
		}
		before := k.m.Line(path.Join(tree.Sys, ksmFolder, "run"))
		if before != ksmStop && before != ksmMerge && before != ksmUnmerge {
			return fmt.Errorf("run holds %q", before)
		}
		if err := k.unmerge(ctx); err != nil {
			return err
		}
		err := k.set(ctx, a.Path, value)
		if again := k.set(ctx, "run", before); err == nil {
			err = again
		}
		return err
	})
}

// unmerge gives every merged page its own copy again. It writes nothing if no page is shared and merging is stopped.
func (k ksm) unmerge(ctx context.Context) error {
	if k.m.Line(path.Join(tree.Sys, ksmFolder, "run")) != ksmMerge && k.shared() == 0 {
		return nil
	}
	if err := k.set(ctx, "run", ksmUnmerge); err != nil {
		return fmt.Errorf("taking merged pages apart: %w", err)
	}
	if !k.m.Live() { // in a recorded tree the count does not change
		return nil
	}
	for k.shared() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d pages are still shared: %w", k.shared(), context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (k ksm) shared() int { return k.m.Number(path.Join(tree.Sys, ksmFolder, "pages_shared"), 0) }

func (k ksm) set(ctx context.Context, name, value string) error {
	return k.m.SetValue(ctx, tree.Sys, path.Join(ksmFolder, name), value)
}
