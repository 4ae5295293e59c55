package measure

import (
	"context"
	"fmt"
	"time"
)

// Exchange is a conversation between two ends: transactions or a stream.
type Exchange interface {
	// Talk runs the load once: Connections connections for Duration. It sets Transactions and TPS, or Bytes and
	// BitsPerS, and Retransmits, Seconds and Latency. For transactions that can be lost it also sets Sent, Received,
	// Lost and Late, and for those on a schedule Due, Blocked and LatencyRaw.
	Talk(ctx context.Context, load Load) (Sample, error)
	// CPU and Counters are those of Path.
	CPU(ctx context.Context) ([]MachineTimes, error)
	Counters(ctx context.Context) (Counters, error)
}

// RunExchange measures a conversation: the idle machine, warm-up, then the trials. It treats run, context and errors as
// Bench.Run does.
func RunExchange(ctx context.Context, e Exchange, run *Run, progress func(Step)) error {
	return exchangeCampaign(e, progress).run(ctx, run)
}

// ExchangeOnce is Bench.Once for a conversation.
func ExchangeOnce(ctx context.Context, e Exchange, run *Run) error {
	return exchangeCampaign(e, nil).once(ctx, run)
}

func exchangeCampaign(e Exchange, progress func(Step)) *campaign {
	step := func(s Step) {
		if progress != nil {
			progress(s)
		}
	}
	trial := func(ctx context.Context, load Load) (Sample, error) {
		before, err := e.CPU(ctx)
		if err != nil {
			return Sample{}, fmt.Errorf("read CPU times: %w", err)
		}
		s, err := e.Talk(ctx, load)
		if err != nil {
			return s, err
		}
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		after, err := e.CPU(finish)
		if err != nil {
			return s, fmt.Errorf("read CPU times: %w", err)
		}
		s.addCPU(before, after, max(s.Transactions, s.Bytes+s.RampBytes))
		return s, nil
	}
	return &campaign{step: step, cpu: e.CPU, counters: e.Counters, trial: trial}
}
