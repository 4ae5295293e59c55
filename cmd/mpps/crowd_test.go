package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"mpps/internal/golden"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestCrowdOfGuests: a host with thousands of QEMU processes costs seconds. Placing them grew with the square of their
// number.
func TestCrowdOfGuests(t *testing.T) {
	const guests = 1500
	files := map[string]string{}
	for i := range guests {
		pid := 100_000 + 4*i
		in := fmt.Sprintf("proc/%d/", pid)
		files[in+"comm"] = "qemu-system-x86\n"
		files[in+"exe"] = "-> /usr/bin/qemu-system-x86_64"
		files[in+"cgroup"] = fmt.Sprintf("0::/machine.slice/vm%d\n", i)
		files[in+"cmdline"] = strings.Join([]string{"/usr/bin/qemu-system-x86_64", "-name", fmt.Sprintf("guest=vm%d", i),
			"-accel", "kvm", "-m", "size=1048576k", "-smp", "2", "-netdev", `{"type":"tap","fd":"29","id":"n"}`, "-device",
			fmt.Sprintf(`{"driver":"virtio-net-pci","netdev":"n","id":"net0","mac":"52:54:00:00:%02x:%02x"}`, i>>8, i&255),
		}, "\x00") + "\x00"
		for thread, name := range []string{"qemu-system-x86", "CPU 0/KVM", "CPU 1/KVM"} {
			stat := treetest.Stat(pid+thread, name, 5, 0, 0, 0)
			status := fmt.Sprintf("Name:\t%s\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3\n", name)
			if thread == 0 {
				files[in+"stat"], files[in+"status"] = stat, status
			}
			at := fmt.Sprintf("%stask/%d/", in, pid+thread)
			files[at+"stat"], files[at+"status"] = stat, status
		}
	}
	if memory, err := os.Stat("/dev/shm"); err == nil && memory.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
	root := treetest.Recorded(t, files).Path
	must.Do(t, golden.Tree("testdata/trees/two-nodes.txtar", root))
	for verb, most := range map[string]time.Duration{"inspect": 4 * time.Second, "place": 4 * time.Second,
		"audit": 8 * time.Second} {
		argv := []string{"--root", root, verb}
		if verb != "inspect" {
			argv = append(argv, "--pps", "500k")
		}
		var stdout, stderr bytes.Buffer
		used := treetest.CPUTime(t)
		code := run(argv, strings.NewReader(""), io.Writer(&stdout), &stderr)
		if used = treetest.CPUTime(t) - used; used > most {
			t.Errorf("%s: %v of CPU time", verb, used.Round(10*time.Millisecond))
		} else {
			t.Logf("%s: %v of CPU time, %d bytes", verb, used.Round(10*time.Millisecond), stdout.Len())
		}
		must.Hold(t, code == outcome.CodeOK, "%s: exit code %d: %s", verb, code, &stderr)
		if verb == "inspect" && !strings.Contains(stdout.String(), "vm") {
			t.Errorf("%s: no guest is shown: %.2000s", verb, &stdout)
		}
	}
}
