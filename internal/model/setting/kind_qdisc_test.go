package setting

import "testing"

func TestQdisc(t *testing.T) {
	for raw, restorable := range map[string]bool{
		"noqueue": true, "default fq_codel": true, "default mq fq_codel": true, "default mq": false,
		"pfifo_fast 8001:": true, "mq 1: fq_codel": true,
		"mq 1:": false, "fq_codel 8001:": false, "htb 1:": false,
	} {
		q, err := ParseQdisc(" " + raw + "\n")
		if err != nil || q.String() != raw || (q.Restorable() == nil) != restorable {
			t.Errorf("%q: %+v, %v; can be put back: %v", raw, q, err, q.Restorable())
		}
	}
	for _, raw := range []string{
		"", "default", "default noqueue", "noqueue 1:", "fq_codel", "fq_codel 0:", "fq_codel 10000:", "fq_codel x:",
		"mq 1: fq_codel fq", "pfifo_fast 1: fq", "FQ 1:", "../x 1:", "default mq a/b",
	} {
		if found, err := Kinds[RootQdisc].Canonical(raw); err == nil || found != "" {
			t.Errorf("%q: %q, expected a refusal", raw, found)
		}
	}
	for raw, kind := range map[string]string{"default fq": "fq", "default mq fq_codel": "fq_codel",
		"mq 1: pfifo_fast": "pfifo_fast", "pfifo_fast 1:": "", "noqueue": ""} {
		if q, err := ParseQdisc(raw); err != nil || q.ByDefault() != kind {
			t.Errorf("%q comes back by net.core.default_qdisc %q, %v; expected %q", raw, q.ByDefault(), err, kind)
		}
	}
}
