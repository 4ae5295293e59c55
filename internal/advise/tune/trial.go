package tune

import (
	"cmp"
	"context"
)

// trial is one trial, in packets per second.
type trial struct {
	load, received float64
	sent           float64 // 0: unknown
	length         int     // in multiples of the usual one
}

// loss is the share of the sent packets, or of the load if that is unknown, that did not arrive.
func (t trial) loss() float64 { return lossOf(t.load, t.received, t.sent) }

func lossOf(load, received, sent float64) float64 {
	sent = cmp.Or(sent, load)
	if sent == 0 {
		return 0
	}
	return max(0, 1-received/sent)
}

// sample sends the load for one trial of length times the usual duration. exact counts every packet, so that losses
// compare.
func (l *loop) sample(ctx context.Context, length int, exact bool) (trial, error) {
	if ctx.Err() != nil {
		return trial{}, context.Cause(ctx)
	}
	t, began := trial{load: l.load, length: length}, l.Now()
	var err error
	if t.received, err = l.host.Sample(ctx, l.load, length, exact); err != nil {
		return trial{}, err
	}
	if took := l.Now().Sub(began); length == 1 && (l.trialTook == 0 || took < l.trialTook) {
		l.trialTook = took
	}
	if ctx.Err() != nil { // cut short
		return trial{}, context.Cause(ctx)
	}
	if s, ok := l.host.(Sender); ok {
		t.sent = s.Sent()
	}
	l.result.Trials++
	l.result.Measured += l.Trial.Seconds() * float64(length)
	return t, nil
}
