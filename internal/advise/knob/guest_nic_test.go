package knob

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestStripe compares with what virtio_net makes of CPUs and queues since Linux 4.19; 2 queues on 3 CPUs were measured
// on 6.12.
func TestStripe(t *testing.T) {
	for _, c := range []struct {
		cpus   string
		queues int
		want   string
	}{
		{"0-2", 2, "[0-1 2]"}, {"0-3", 2, "[0-1 2-3]"}, {"0-4", 2, "[0-2 3-4]"}, {"0-1", 4, "[0 1 0 1]"},
		{"0,2,4", 3, "[0 2 4]"}, {"0-7", 3, "[0-2 3-5 6-7]"}, {"", 2, "[ ]"},
	} {
		cpus := must.Get(setting.ParseCPUs(c.cpus))(t)
		must.Equal(t, fmt.Sprint(stripe(cpus, c.queues)), c.want, "%d queues on %s", c.queues, c.cpus)
	}
}

func TestPicksByCPU(t *testing.T) {
	for release, want := range map[string]bool{
		"3.10.0-957.27.2.el7.x86_64": true, "3.10.0-1127.el7.x86_64": true, "3.10.0-1160.el7.x86_64": false,
		"3.10.108": true, "3.8.13": true, "3.12.74": true, "3.13.0-170-generic": false, "3.2.0": false,
		"4.18.0-553.el8.x86_64": false, "6.12.48+deb13-amd64": false, "": false,
	} {
		must.Equal(t, picksByCPU(release), want, "%q", release)
	}
}

// TestChannelsUnseen: a guest whose ethtool did not answer is unknown, and why is said.
func TestChannelsUnseen(t *testing.T) {
	inside := &facts.Host{Virtual: "kvm", NICs: []facts.NIC{{Name: "eth0", Driver: "virtio_net"}}}
	h := &facts.Host{AsRoot: true,
		Guests: []facts.Guest{{Name: "vm1", Managed: true, State: "running", Inside: &facts.Inside{Host: inside}}}}
	for why, unseen := range map[string][]facts.Unseen{
		"in a guest: ethtool tells": nil,
		"its agent does not answer": {facts.ChannelsUnseen("eth0", "its agent does not answer")},
	} {
		inside.Unseen = unseen
		v := NewView(h, goal.Goal{})
		at := guestChannels.Where(h)
		must.Need(t, len(at) == 1, "addresses: %v", at)
		if advice := guestChannels.Want(v, at[0]); !strings.Contains(advice.Unsure, why) {
			t.Errorf("%+v, expected unknown because %q", advice, why)
		}
	}
}
