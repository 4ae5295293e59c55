package kernel

import (
	"context"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// sysfsFile reads and writes plain sysfs files.
type sysfsFile struct{ m *tree.Tree }

func (s sysfsFile) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.Sys, a.Path, func(text string) (string, error) {
		return setting.Kinds[setting.Sysfs].Canonical(chosen(text))
	})
}

func (s sysfsFile) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	if err := s.m.SetValue(ctx, tree.Sys, a.Path, value); err != nil {
		return tree.Refusal(a, value, err)
	}
	return nil
}

// chosen is the word in brackets of a list of choices ("always [madvise] never"), or the text where it is none.
func chosen(text string) string {
	words := strings.Fields(text)
	choice, brackets := "", 0
	for _, word := range words {
		if len(word) > 2 && word[0] == '[' && word[len(word)-1] == ']' {
			choice = word[1 : len(word)-1]
			brackets++
		}
	}
	if brackets != 1 || len(words) < 2 {
		return text
	}
	return choice
}

// sysfsMask reads and writes sysfs files that hold a CPU mask: XPS, RPS, workqueues. A device with one transmit queue
// has no XPS: reading says there is no such file.
type sysfsMask struct{ m *tree.Tree }

func (s sysfsMask) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.Sys, a.Path, func(text string) (string, error) {
		set, err := setting.ParseCPUMask(text)
		return set.String(), err
	})
}

func (s sysfsMask) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	set, err := setting.ParseCPUs(value)
	if err != nil {
		return tree.Refusal(a, value, err)
	}
	if err := s.m.SetValue(ctx, tree.Sys, a.Path, set.Mask()); err != nil {
		return tree.Refusal(a, value, err)
	}
	return nil
}
