package threads

import (
	"testing"

	"mpps/internal/model/setting"
)

func TestOwnAffinity(t *testing.T) {
	own, err := getAffinity(0)
	if err != nil || len(own) == 0 {
		t.Fatalf("found %s, %v", own, err)
	}
	if err := SetAffinity(0, nil); err == nil {
		t.Error("an empty set was accepted")
	}
	if err := SetAffinity(0, setting.CPUs(20000)); err == nil {
		t.Error("CPU 20000 was accepted")
	}
	if err := SetAffinity(-1, own); err == nil {
		t.Error("thread −1 was found")
	}
	if again, _ := getAffinity(0); !again.Equal(own) {
		t.Errorf("refused writes changed the affinity from %s to %s", own, again)
	}
}
