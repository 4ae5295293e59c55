package definition

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/model/domain"
	"mpps/internal/must"
)

// TestManyNICs: advice on each of hundreds of NICs costs no comparison of whole documents for each.
func TestManyNICs(t *testing.T) {
	text := "<domain type='kvm'><name>v</name><devices>"
	var a advice
	for i := range 200 {
		mac := fmt.Sprintf("52:54:00:00:00:%02x", i)
		text += "<interface type='bridge'><mac address='" + mac + "'/><source bridge='br0'/><model type='virtio'/></interface>"
		for path, value := range map[string]string{"driver.name": "vhost", "driver.queues": "4"} {
			a.wishes = append(a.wishes, domain.Change{Path: "interface/" + mac + "/" + path, Value: value})
		}
	}
	d := must.Get(domain.Parse([]byte(text + "</devices></domain>\n")))(t)
	began := cpuTime()
	good := a.override(d, nil, nil)
	if used := cpuTime() - began; used > 3*time.Second {
		t.Errorf("it took %v of CPU time", used)
	}
	must.Hold(t, len(good) == len(a.wishes) && !strings.Contains(string(d.Bytes()), "queues"),
		"%d of %d wishes are left", len(good), len(a.wishes))
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
