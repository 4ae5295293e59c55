package accept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/measure/acceptance"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/report/founding"
)

// headStart is how long the packets of a background load flow before the step begins.
const headStart = time.Second

// step runs one step and records its answer.
func (x *Runner) step(ctx context.Context, r *acceptance.Run, s *acceptance.StepDone, o *acceptance.Outcomes) error {
	if s.Phase == acceptance.Undo {
		return x.undo(ctx, r, s)
	}
	ended := func() error { return nil }
	if len(s.Beside) > 0 {
		ended = x.startBeside(ctx, s.Beside)
	}
	answer, err := x.Execute(ctx, stepCommand(s), nil)
	code := answer.Code
	load := ended()
	s.Code = code
	if err != nil && !(code != outcome.CodeFailed && slices.Contains(s.Codes, code)) {
		return err
	}
	if load != nil {
		r.Notes = append(r.Notes, "the load beside step "+s.ID+" failed: "+load.Error())
	}
	if code != outcome.CodeOK && !slices.Contains(s.Codes, code) {
		return fmt.Errorf("exit code %d", code)
	}
	if len(answer.JSON) > 0 {
		s.File = s.ID + ".json"
		if err := ops.ReplaceFile(filepath.Join(r.Inputs.Dir, s.File), answer.JSON); err != nil {
			return fmt.Errorf("write %s: %w", s.File, err)
		}
	}
	if err := readAnswer(r, s, answer); err != nil {
		return err
	}
	if err := o.Add(s.ID, s.Gives, answer.JSON); err != nil {
		return err
	}
	if err := o.CheckQueues(&s.Step); err != nil {
		return outcome.Failed(err, "the agent sends with one worker for each queue, each on a different CPU: the "+
			"guest needs two vCPUs or more that the agent may use; 'ethtool -l' in the guest shows its queues, and "+
			"'mpps path --guest "+r.Inputs.Guest+"' which of them carry packets")
	}
	s.Answer = append(s.Answer, founding.StepAnswer(o, s)...)
	return nil
}

// stepCommand returns a step's command, or the command that resumes an interrupted one from its file.
func stepCommand(s *acceptance.StepDone) []string {
	if s.Kept == "" {
		return s.Argv
	}
	if info, err := os.Stat(s.Kept); err != nil || info.Size() == 0 {
		return s.Argv
	}
	return s.Again
}

// readAnswer extracts from an answer what later steps need: transactions, restarts and the risks of a plan.
func readAnswer(r *acceptance.Run, s *acceptance.StepDone, answer Answer) error {
	s.Answer = nil
	switch s.Gives {
	case acceptance.Applied:
		var made struct {
			Result struct {
				TX          string  `json:"tx"`
				Within      float64 `json:"confirm_within_seconds"`
				Transaction struct {
					TX string `json:"tx"`
				} `json:"transaction"`
			} `json:"result"`
		}
		if err := json.Unmarshal(answer.JSON, &made); err != nil {
			return fmt.Errorf("answer of step %s: %w", s.ID, err)
		}
		tx := made.Result.TX + made.Result.Transaction.TX
		if tx == "" {
			s.Answer = []string{"nothing had to be changed"}
			return nil
		}
		if made.Result.Within > 0 {
			return outcome.Failed(fmt.Errorf("transaction %s can cut the path that you came by, and is undone "+
				"within %.0f s unless it is confirmed", tx, made.Result.Within),
				"add --consent connectivity where you have another way in (a console)")
		}
		s.Answer = []string{"transaction " + tx}
		if !slices.Contains(r.Standing, tx) {
			r.Standing = append(r.Standing, tx)
		}
		for _, restart := range answer.Restarts {
			r.Owes.Add(restart.What)
			s.Answer = append(s.Answer, change.TakeEffect(len(restart.Addresses))+" after "+restart.What.String())
		}
	case acceptance.Planned:
		var made struct {
			Result plan.Plan `json:"result"`
		}
		if err := json.Unmarshal(answer.JSON, &made); err != nil {
			return fmt.Errorf("answer of step %s: %w", s.ID, err)
		}
		p := &made.Result
		s.Answer = planSummary(p)
		if p.Risks(goal.Connectivity) && !r.Inputs.Consents(string(goal.Connectivity)) {
			return outcome.Failed(errors.New("the plan can cut the path that you came by, and nobody would be there "+
				"to confirm it in time"), "add --consent connectivity where you have another way in (a console)")
		}
	}
	return nil
}

// planSummary summarises a plan, one line per fact.
func planSummary(p *plan.Plan) []string {
	words := []string{ops.Count(len(p.Changes), "change")}
	for _, restart := range p.Restarts {
		words = append(words, change.TakeEffect(len(restart.Addresses))+" after "+restart.What.String())
	}
	if n := len(p.Consent); n > 0 {
		words = append(words, fmt.Sprintf("%s left out: each needs --consent of its risk", ops.Count(n, "change")))
	}
	if n := len(p.Skipped); n > 0 {
		words = append(words, ops.Count(n, "value")+" cannot be set here")
	}
	return words
}

// startBeside starts a command that makes background load, and waits until its packets flow, or it has ended: its
// generator and receiver are first measured alone. The returned function ends it, and returns its error if it had
// failed before.
func (x *Runner) startBeside(ctx context.Context, argv []string) func() error {
	ctx, cancel := context.WithCancel(ctx)
	done, flows := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := x.Execute(ctx, argv, sync.OnceFunc(func() { close(flows) }))
		done <- err
	}()
	select {
	case <-flows:
		select {
		case <-time.After(headStart):
		case <-ctx.Done():
		}
	case err := <-done:
		done <- err
	}
	return func() error {
		early := len(done) > 0
		cancel()
		if err := <-done; early && err != nil {
			return err
		}
		return nil
	}
}

// undo rolls back the run's transactions, newest first, and records values that somebody else has changed since.
func (x *Runner) undo(ctx context.Context, r *acceptance.Run, s *acceptance.StepDone) error {
	for n := len(r.Standing) - 1; n >= 0; n-- {
		s.Ran = append(s.Ran, "mpps rollback "+r.Standing[n])
		answer, err := x.Execute(ctx, []string{"rollback", "--", r.Standing[n]}, nil)
		code := answer.Code
		if err == nil && code != outcome.CodeOK && code != outcome.CodeDrifted {
			err = fmt.Errorf("exit code %d", code)
		}
		if err != nil {
			return err
		}
		s.File = fmt.Sprintf("%s-%d.json", s.ID, len(s.Ran))
		if err := ops.ReplaceFile(filepath.Join(r.Inputs.Dir, s.File), answer.JSON); err != nil {
			return fmt.Errorf("write %s: %w", s.File, err)
		}
		if code == outcome.CodeDrifted {
			s.Answer = append(s.Answer, r.Standing[n]+": somebody else changed some of its values since; they were "+
				"left alone")
		} else {
			s.Answer = append(s.Answer, r.Standing[n]+": everything is back")
		}
		r.Standing = r.Standing[:n]
	}
	return nil
}

// DryPlan returns the plan that a plan command would make now.
func (x *Runner) DryPlan(ctx context.Context, argv []string) (*plan.Plan, error) {
	dir, err := os.MkdirTemp("", "mpps-acceptance-")
	if err != nil {
		return nil, err
	}
	argv = slices.Clone(argv)
	if at := slices.Index(argv, "-o"); at >= 0 {
		argv[at+1] = filepath.Join(dir, "plan.json")
	}
	answer, err := x.Execute(ctx, argv, nil)
	var made struct {
		Result plan.Plan `json:"result"`
	}
	if err == nil {
		err = json.Unmarshal(answer.JSON, &made)
	}
	return &made.Result, errors.Join(err, os.RemoveAll(dir))
}
