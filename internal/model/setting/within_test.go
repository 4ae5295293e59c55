package setting

import (
	"context"
	"errors"
	"testing"
)

func TestWritesGiveUpWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	hang := make(chan struct{})
	defer close(hang)
	if err := Within(ctx, func() error { <-hang; return nil }); !errors.Is(err, ErrInDoubt) {
		t.Errorf("a call that hangs: %v, want in doubt", err)
	}
}
