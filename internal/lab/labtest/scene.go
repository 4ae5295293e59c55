package labtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/must"
)

// Scene is a lab host during one test.
type Scene struct {
	testing.TB
	Lab   *lab.Lab
	began time.Time
}

// On returns a scene on a lab's host.
func On(t testing.TB, l *lab.Lab) *Scene { return &Scene{TB: t, Lab: l, began: time.Now()} }

// In returns the scene for a subtest.
func (s *Scene) In(t testing.TB) *Scene { return &Scene{TB: t, Lab: s.Lab, began: s.began} }

// commandLimit bounds a command on the host, which may have hung for good.
const commandLimit = 15 * time.Minute

// Must runs a script on the host and returns its output, trimmed. It also works after the test, for cleanup.
func (s *Scene) Must(script string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), commandLimit)
	defer cancel()
	out, err := s.Lab.Must(ctx, script)
	if err != nil {
		s.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(out)
}

// MPPS runs mpps on the host and requires an exit code.
func (s *Scene) MPPS(code int, argv ...string) lab.Result {
	s.Helper()
	return s.MPPSAny([]int{code}, argv...)
}

// MPPSAny requires one of several exit codes.
func (s *Scene) MPPSAny(codes []int, argv ...string) lab.Result {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), commandLimit)
	defer cancel()
	r := must.Get(s.Lab.Run(ctx, append([]string{"mpps"}, argv...)...))(s)
	if !slices.Contains(codes, r.Code) {
		s.Fatalf("mpps %s: exit %d, expected %v\n%s%s", strings.Join(argv, " "), r.Code, codes, r.Stdout, r.Stderr)
	}
	return r
}

// Answer runs mpps --json on the host of a scene and returns the result in its envelope.
func Answer[R any](s interface {
	testing.TB
	MPPSAny(codes []int, argv ...string) lab.Result
}, code int, argv ...string,
) R {
	s.Helper()
	return Result[R](s, s.MPPSAny([]int{code}, append([]string{"--json"}, argv...)...).Stdout)
}

// Result returns the result in the envelope of an answer.
func Result[R any](t testing.TB, text string) R {
	t.Helper()
	var envelope struct {
		Schema string `json:"schema"`
		Result R      `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &envelope); err != nil || envelope.Schema == "" {
		t.Fatalf("no answer: %v\n%.400s", err, text)
	}
	return envelope.Result
}

// Put writes a file that the host sees as /share/NAME.
func (s *Scene) Put(name, text string) {
	s.Helper()
	must.Do(s, os.WriteFile(filepath.Join(s.Lab.ShareDir(), name), []byte(text), 0o600))
}

// LogTime logs how long the test has run.
func (s *Scene) LogTime(what string) {
	s.Helper()
	s.Logf("%5.1f s  %s", time.Since(s.began).Seconds(), what)
}
