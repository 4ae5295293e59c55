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

// Conversation measures an exchange as Bench does a path: the idle machine, warm-up, then the trials.
type Conversation struct {
	Exchange
	Progress func(Step) // called before each step; may be nil
}

// Run is Bench.Run for a conversation.
func (c *Conversation) Run(ctx context.Context, run *Run) error { return c.campaign().run(ctx, run) }

// Once is Bench.Once for a conversation.
func (c *Conversation) Once(ctx context.Context, run *Run) error { return c.campaign().once(ctx, run) }

// Interleave is Bench.Interleave for a conversation.
func (c *Conversation) Interleave(ctx context.Context, sides [2]Configuration, blocks int, seed uint64) (Interleaved,
	error) {
	return c.campaign().interleave(ctx, sides, blocks, seed)
}

func (c *Conversation) campaign() *campaign {
	return &campaign{step: stepTo(c.Progress), cpu: c.CPU, counters: c.Counters, trial: c.trial}
}

// trial runs the load once and adds CPU times.
func (c *Conversation) trial(ctx context.Context, load Load) (Sample, error) {
	before, err := c.CPU(ctx)
	if err != nil {
		return Sample{}, fmt.Errorf("read CPU times: %w", err)
	}
	s, err := c.Talk(ctx, load)
	if err != nil {
		return s, err
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	after, err := c.CPU(finish)
	if err != nil {
		return s, fmt.Errorf("read CPU times: %w", err)
	}
	s.addCPU(before, after, max(s.Transactions, s.Bytes+s.RampBytes))
	return s, nil
}
