package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/outcome"
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
		must.Hold(t, advice != "", "%s: no advice", kind)
		for _, m := range named.FindAllStringSubmatch(advice, -1) {
			must.Hold(t, ids[m[1]], "%s: there is no knob %s", kind, m[1])
		}
	}
}

// TestLatencyImport: outputs of tools are read as runs, compared and saved; what is no file, no output or no import is
// refused.
func TestLatencyImport(t *testing.T) {
	dir := t.TempDir()
	summary, fifo, saved := filepath.Join(dir, "then.txt"), filepath.Join(dir, "pipe"), filepath.Join(dir, "then.json")
	line := "T: 0 ( 1234) P:95 I:200 C:3000000 Min:      5 Act:    7 Avg:    7 Max:      12\n"
	must.Do(t, os.WriteFile(summary, []byte(line), 0o600))
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	noise := filepath.Join(dir, "noise.txt")
	must.Do(t, os.WriteFile(noise, []byte("# RTLA osnoise histogram\nIndex   CPU-001\n3 9\nover: 0\ncount: 9\n"+
		"min: 3\navg: 3.00\nmax: 3\n"), 0o600))
	other := "../../internal/measure/wakeup/testdata/oslat-2.40.txt"
	for _, c := range []struct {
		argv []string
		code int
		says string
	}{
		{[]string{"--import", summary, summary, "-o", saved}, outcome.CodeOK, "2 outputs read"},
		{[]string{"--import", other, "--against", saved}, outcome.CodeOK, "13636"},
		{[]string{"--import", summary, other}, outcome.CodeUsage, "it is of oslat"},
		{[]string{"--import", summary, "--tool", "oslat"}, outcome.CodeFailed, "expected JSON"},
		{[]string{"--import", noise}, outcome.CodeOK, "osnoise: how long a busy kernel thread was interrupted"},
		{[]string{"--import", noise, "--tool", "timerlat"}, outcome.CodeFailed, "it is the output of osnoise"},
		{[]string{"--import", fifo}, outcome.CodeFailed, "is a pipe"},
		{[]string{"--import", filepath.Join(dir, "none")}, outcome.CodeFailed, "no such file"},
		{[]string{summary}, outcome.CodeUsage, "--import reads files"},
	} {
		var out, said bytes.Buffer
		code := run(append([]string{"latency"}, c.argv...), strings.NewReader(""), &out, &said)
		must.Hold(t, code == c.code && strings.Contains(out.String()+said.String(), c.says),
			"%v: exit %d, %s%s", c.argv, code, out.String(), said.String())
	}
	var out, said bytes.Buffer
	if code := run([]string{"latency", "--json", "--import", summary}, strings.NewReader(""), &out,
		&said); code != outcome.CodeOK {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	must.Try(t, validate("mpps.latency.1", out.String()))
}
