package threads

import (
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestOwnAffinity(t *testing.T) {
	own, err := getAffinity(0)
	must.Need(t, err == nil && len(own) != 0, "found %s, %v", own, err)
	must.Refuse(t, SetAffinity(0, nil), "an empty set was accepted")
	must.Refuse(t, SetAffinity(0, setting.CPUs(20000)), "CPU 20000 was accepted")
	must.Refuse(t, SetAffinity(-1, own), "thread −1 was found")
	if again, _ := getAffinity(0); !again.Equal(own) {
		t.Errorf("refused writes changed the affinity from %s to %s", own, again)
	}
}
