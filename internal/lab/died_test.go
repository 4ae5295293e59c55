package lab

import "testing"

func TestLastWords(t *testing.T) {
	t.Parallel()
	hung := `[  968.035147] INFO: task systemd-udevd:267 blocked for more than 120 seconds.
[  968.037526]  <TASK>
[  968.039895]  request_wait_answer+0x1ba/0x2a0
[  968.039952]  __fuse_simple_request+0x297/0x290
[  968.049736]  </TASK>
`
	elsewhere := `[  968.035147] INFO: task modprobe:300 blocked for more than 120 seconds.
[  968.037526]  <TASK>
[  968.039895]  rtnl_lock+0x1ba/0x2a0
[  968.049736]  </TASK>
[  969.000000] task:cat stack trace __fuse_simple_request+0x297/0x290
`
	for _, test := range []struct{ log, want string }{
		{"[    0.1] Linux version 6.12\n", ""},
		{elsewhere, ""},
		{hung, "[  968.035147] INFO: task systemd-udevd:267 blocked for more than 120 seconds. (for its file system)"},
		{elsewhere + hung, "[  968.035147] INFO: task systemd-udevd:267 blocked for more than 120 seconds. (for its file system)"},
		{"[   37.650356] Kernel panic - not syncing: Fatal exception in interrupt\r\n" + hung, "[   37.650356] Kernel panic - not syncing: Fatal exception in interrupt"},
	} {
		if got := lastWords(test.log); got != test.want {
			t.Errorf("found %q, expected %q in\n%s", got, test.want, test.log)
		}
	}
}
