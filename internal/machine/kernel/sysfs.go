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
		return setting.Kinds[setting.Sysfs].Canonical(choice(text))
	})
}

func (s sysfsFile) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error { return s.m.SetValue(ctx, tree.Sys, a.Path, value) })
}

// choice returns the word in brackets of a list of choices ("always [madvise] never"), or else the whole text.
func choice(text string) string {
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

// sysfsMask reads and writes sysfs files with a CPU mask: XPS, RPS, workqueues. A device with one transmit queue has no
// XPS: it reads as a missing file.
type sysfsMask struct{ m *tree.Tree }

func (s sysfsMask) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.Sys, a.Path, func(text string) (string, error) {
		set, err := setting.ParseCPUMask(text)
		return set.String(), err
	})
}

func (s sysfsMask) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		set, err := setting.ParseCPUs(value)
		if err != nil {
			return err
		}
		return s.m.SetValue(ctx, tree.Sys, a.Path, set.Mask())
	})
}
