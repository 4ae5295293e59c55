package accept

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/measure/acceptance"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestOwes: what a transaction waits for is taken from its plan, and one that would be undone by itself ends the run.
func TestOwes(t *testing.T) {
	restarts := []plan.Restart{{What: setting.Reboot()}, {What: setting.RestartOf("vm1")}}
	for name, c := range map[string]struct {
		answer   string
		standing int
		owes     bool
		fails    bool
	}{
		"apply":           {`{"result": {"tx": "T1"}}`, 1, true, false},
		"sriov assign":    {`{"result": {"transaction": {"tx": "T1"}}}`, 1, true, false},
		"nothing to do":   {`{"result": {}}`, 0, false, false},
		"to be confirmed": {`{"result": {"tx": "T1", "confirm_within_seconds": 60}}`, 0, false, true},
	} {
		r, s := &acceptance.Run{}, &acceptance.StepDone{Step: acceptance.Step{ID: "x", Gives: acceptance.Applied}}
		err := readAnswer(r, s, Answer{JSON: []byte(c.answer), Restarts: restarts})
		must.Hold(t, (err != nil) == c.fails && len(r.Standing) == c.standing && r.Owes.Boot == c.owes &&
			(len(r.Owes.Restart) == 1) == c.owes, "%s: %v, standing %v, owes %+v", name, err, r.Standing, r.Owes)
	}
}

// TestBeside: a load that ends early with an error is reported; one that its step ends is not.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		x := &Runner{Execute: func(context.Context, []string, func()) (Answer, error) { return Answer{}, refused }}
		end := x.startBeside(t.Context(), []string{"bench", "pps"})
		synctest.Wait()
		must.Is(t, end(), refused, "a load that was refused")
		x.Execute = func(ctx context.Context, _ []string, trial func()) (Answer, error) {
			time.Sleep(time.Minute) // what its ends can do alone, on a busy machine
			trial()
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}
		began := time.Now()
		end = x.startBeside(t.Context(), []string{"bench", "pps"})
		if err := end(); err != nil || time.Since(began) < time.Minute {
			t.Errorf("a load that its step ended: %v after %v", err, time.Since(began))
		}
	})
}
