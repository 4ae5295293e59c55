package goal

import (
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		g    Goal
		want string
	}{
		{Goal{Latency: 50 * time.Microsecond, CPUs: setting.CPUs(2, 3), Guest: "rt1", Consent: []Risk{Data, Security},
			Frame: 64}, "--latency 50us --cpus 2-3 --guest rt1 --consent data,security"},
		{Goal{PPS: 1.8e6, Frame: 128, Loss: 0.005, Bulk: 25e9, NIC: "vf"}, "--pps 1800000 --frame 128 --loss 0.005 " +
			"--bulk 25000000000 --nic vf"},
		{Goal{}, ""},
	} {
		must.Equal(t, c.g.Flags(), c.want, "%+v", c.g)
	}
}
