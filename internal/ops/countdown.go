package ops

import "time"

// Countdown shows the progress of something that takes a known time, until done is called. Nothing else may be printed
// meanwhile.
func (e *Env) Countdown(what string, whole time.Duration) (done func()) {
	e.Out.Progress("%s for %v", what, whole)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for began := time.Now(); ; {
			select {
			case <-ticks.C:
				e.Out.Progress("%s: %.0f of %.0f s", what, time.Since(began).Seconds(), whole.Seconds())
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
