package main

import (
	"regexp"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
)

// TestAdviceNamesKnobs: each kind of cause has words and advice, and every knob that the advice names is one.
func TestAdviceNamesKnobs(t *testing.T) {
	ids := map[string]bool{}
	for _, k := range knob.Catalogue() {
		ids[k.ID] = true
	}
	named := regexp.MustCompile(`mpps explain ([a-z0-9_.]+)`)
	for _, kind := range facts.Disturbances() {
		advice := wakeup.Advice(kind)
		if advice == "" {
			t.Errorf("%s: no advice", kind)
		}
		for _, m := range named.FindAllStringSubmatch(advice, -1) {
			if !ids[m[1]] {
				t.Errorf("%s: there is no knob %s", kind, m[1])
			}
		}
	}
}
