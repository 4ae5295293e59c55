package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure/search/simulated"
)

type simDevice struct{ *simulated.Device }

func (d simDevice) Trial(_ context.Context, t Trial) (Outcome, error) {
	s, r := d.Device.Trial(t.PPS, t.Seconds)
	return Outcome{s, r, t.Seconds}, nil
}

func TestExplore(t *testing.T) {
	kinds := simulated.Kinds()
	if k := os.Getenv("KINDS"); k != "" {
		kinds = strings.Split(k, ",")
	}
	thr := 30.0
	fmt.Sscan(os.Getenv("THR"), &thr)
	reps := 5
	mode, budget := Fast, time.Minute
	if os.Getenv("MODE") != "" {
		mode, budget = Compliant, 20*time.Minute
	}
	fmt.Sscan(os.Getenv("REPS"), &reps)
	for _, kind := range kinds {
		rng := rand.New(rand.NewPCG(1, 1))
		var secs, sum, sq, worst, wmax, wid, cover, maxs, esum, eworst float64
		n := 0
		start := time.Now()
		for range reps {
			for range 20 {
				c := math.Pow(10, 5+rng.Float64()*(math.Log10(14e6)-5))
				d, _ := simulated.New(kind, c, uint64(n+1))
				r, err := Run(context.Background(), simDevice{d}, Options{Mode: mode, MinPPS: 1000, MaxPPS: simulated.LineRate, FrameBytes: 64, PDR: 0.005, Width: 0.005, Budget: budget, Final: time.Minute})
				if err != nil {
					t.Log(kind, err)
					continue
				}
				if r.NDR.LowerPPS == nil || r.NDR.UpperPPS == nil {
					fmt.Println(kind, c, "none:", r.NDR.None, r.LimitedBy, r.PDR.LowerPPS, r.Seconds)
					if r.PDR.LowerPPS == nil || r.PDR.UpperPPS == nil {
						continue
					}
					r.NDR = r.PDR
					c /= 0.995
				}
				lower, upper, est := *r.NDR.LowerPPS, *r.NDR.UpperPPS, *r.NDR.EstimatePPS
				e := lower/c - 1
				if math.Abs(e) > math.Abs(worst) {
					worst = e
				}
				if es := est/c - 1; math.Abs(es) > math.Abs(eworst) {
					eworst = es
				}
				if (math.Abs(e) > 0.006 || r.Seconds > thr) && os.Getenv("SHOW") != "" {
					fmt.Printf("--- %s c=%.0f seed %d: lower %.0f (%+.3f%%) upper %+.3f%% s %g\n", kind, c, n+1, lower, 100*e, 100*(upper/c-1), r.Seconds)
					for _, x := range r.Tried {
						fmt.Printf("   %-18s load %+.3f%%  %gs  rate %+.3f%% loss %.4f%%\n", x.Purpose, 100*(x.load()/c-1), x.Outcome.Seconds, 100*(x.rate()/c-1), 100*x.LossRate)
					}
				}
				n++
				secs += r.Seconds
				maxs = max(maxs, r.Seconds)
				sum += e
				esum += est/c - 1
				sq += e * e
				wid += upper/lower - 1
				wmax = max(wmax, upper/lower-1)
				if lower <= c && c <= upper {
					cover++
				}
			}
		}
		N := float64(n)
		fmt.Printf("%-14s s %5.1f (max %3.0f) lower err mean %+.3f worst %+.3f sd %.3f est mean %+.3f worst %+.3f width %.3f max %.3f cover %.1f%%  %v/search\n", kind, secs/N, maxs, 100*sum/N, 100*worst, 100*math.Sqrt(sq/N-sum/N*sum/N), 100*esum/N, 100*eworst, 100*wid/N, 100*wmax, 100*cover/N, (time.Since(start) / time.Duration(n)).Round(time.Millisecond))
	}
}
