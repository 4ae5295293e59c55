package setting

import "testing"

// TestOVSDB: only known keys may be set, to plain decimal numbers within their range.
func TestOVSDB(t *testing.T) {
	for _, c := range []struct {
		key, value string
		may        bool
	}{
		{"max-idle", "500", true}, {"max-idle", "499", false}, {"max-idle", "3600000", true},
		{"max-idle", "3600001", false}, {"max-idle", "", false}, {"max-idle", "+500", false},
		{"max-idle", "0500", false}, {"max-idle", " 500", false}, {"max-idle", "0x500", false},
		{"max-idle", "5e3", false}, {"max-idle", "99999999999999999999", false},
		{"flow-limit", "200000", true}, {"flow-limit", "0", false}, {"flow-limit", "-1", false},
		{"n-handler-threads", "1", true}, {"n-handler-threads", "0", false}, {"n-handler-threads", "1025", false},
		{"hw-offload", "true", false}, {"", "1", false}, {"max_idle", "1000", false}, {"dpdk-extra", "1", false},
	} {
		if err := CheckOVSDB(c.key, c.value); (err == nil) != c.may {
			t.Errorf("other_config:%s=%q: %v", c.key, c.value, err)
		}
	}
}
