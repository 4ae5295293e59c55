package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/must"
)

// processes is a tree of files with the threads given as "PID/TID: name, ran, waited, guest ticks". PID 0 stands for a
// kernel thread.
func processes(t *testing.T, lines ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, line := range lines {
		var pid, tid, ran, waited, guest int
		where, what, _ := strings.Cut(line, ": ")
		parts := strings.Split(what, ", ")
		if _, err := fmt.Sscanf(where+" "+strings.Join(parts[1:], " "), "%d/%d %d %d %d", &pid, &tid, &ran, &waited,
			&guest); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		at, parent, flags := fmt.Sprintf("proc/%d/task/%d/", pid, tid), 1, 0
		if pid == 0 {
			at, parent, flags = fmt.Sprintf("proc/%d/", tid), 2, 0x00200000 // kthreadd, PF_KTHREAD
			files[fmt.Sprintf("proc/%d/task/%d/comm", tid, tid)] = parts[0] + "\n"
		}
		files[at+"comm"] = parts[0] + "\n"
		files[at+"schedstat"] = fmt.Sprintf("%d %d 7\n", ran, waited)
		files[at+"stat"] = fmt.Sprintf("%d (%s) S %d 0 0 0 0 %d %s %d 0 0\n", tid, parts[0], parent, flags,
			strings.Repeat("0 ", 33), guest)
	}
	return files
}

func TestThreadsThatCarryPackets(t *testing.T) {
	files := processes(t,
		"0/15: ksoftirqd/0, 100, 0, 0", "0/16: kworker/0:1, 100, 0, 0", "0/77: vhost-300, 30, 3, 0",
		"0/80: kpktgend_1, 11, 0, 0",
		// As libvirt starts it, with vhost as a thread of QEMU.
		"200/200: qemu-system-x86, 10, 1, 0", "200/201: CPU 0/KVM, 1000, 5, 900", "200/202: CPU 1/KVM, 500, 6, 400",
		"200/203: vhost-200, 70, 2, 0",
		"200/204: IO mon_iothread, 4, 0, 0", "200/205: kvm-nx-lpage-re, 9, 0, 0",
		// By hand: its threads have no names of their own.
		"300/300: qemu-system-x86, 10, 0, 0", "300/301: qemu-system-x86, 800, 0, 700",
		"400/400: qemu-ga, 10, 0, 0", "500/500: bash, 10, 0, 0")
	// Of a person, who gives them the names.
	for name, text := range processes(t, "600/600: qemu-system-x86, 10, 0, 0", "600/601: CPU 0/KVM, 800, 0, 700",
		"700/700: ksoftirqd/1, 10, 0, 0", "800/800: vhost-200, 10, 0, 0") {
		files[name] = text
	}
	files["proc/600/cmdline"] = "qemu-system-x86_64\x00-name\x00guest=web,,1\x00"
	files["proc/600/status"] = "Name:\tqemu-system-x86\nUid:\t1000\t1000\t1000\t1000\n"
	files["proc/200/cmdline"] = "/usr/bin/qemu-system-x86_64\x00-name\x00guest=web,,1,debug-threads=on\x00-S\x00"
	files["proc/300/cmdline"] = "qemu-system-x86_64\x00-name\x00router\x00"
	m := recorded(t, files)
	got := map[string]uint64{}
	for thread, time := range m.threads() {
		if thread.Role != measure.Ourselves {
			got[fmt.Sprintf("%s %s %s", thread.Role, thread.Guest, thread.Name)] = time.Ran
		} else if time.Ran == 0 {
			t.Error("this program has used no time")
		}
	}
	want := map[string]uint64{
		"ksoftirqd  ksoftirqd/0": 100, "pktgen  kpktgend_1": 11, "vhost router vhost-300": 30,
		"vhost web,1 vhost-200": 70,
		"vcpu web,1 CPU 0/KVM":  1000, "vcpu web,1 CPU 1/KVM": 500, "vcpu router qemu-system-x86 301": 800,
		"emulator web,1 qemu-system-x86": 10, "emulator web,1 IO mon_iothread": 4,
		"emulator router qemu-system-x86": 10,
	}
	for name, ran := range want {
		must.Equal(t, got[name], ran, "%s ran", name)
	}
	must.Hold(t, len(got) == len(want), "found %v", got)
}

// Threads that come later are found, and those that have gone are not told with an old time.
func TestThreadsComeAndGo(t *testing.T) {
	dir := t.TempDir()
	write := func(files map[string]string) {
		for name, text := range files {
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
	}
	m := must.Get(OpenMachine(dir))(t)
	defer m.Close()
	if times := m.threads(); times != nil {
		t.Errorf("without /proc: %v", times)
	}
	roles := func() (all string) {
		count := map[measure.Role]int{}
		for thread := range m.threads() {
			count[thread.Role]++
		}
		return fmt.Sprint(count[measure.VCPU], count[measure.Vhost], count[measure.Emulator])
	}
	write(processes(t, "200/200: libvirtd, 1, 0, 0"))
	must.Equal(t, roles(), "0 0 0", "before it is executed")
	write(processes(t, "200/200: qemu-system-x86, 1, 0, 0", "200/201: CPU 0/KVM, 1, 0, 1"))
	must.Equal(t, roles(), "1 0 1", "as it starts")
	write(processes(t, "200/202: vhost-200, 1, 0, 0"))
	must.Equal(t, roles(), "1 1 1", "with vhost")
	must.Do(t, os.RemoveAll(filepath.Join(dir, "proc/200/task/201")))
	must.Equal(t, roles(), "0 1 1", "without a vCPU")
	must.Do(t, os.RemoveAll(filepath.Join(dir, "proc/200")))
	must.Equal(t, roles(), "0 0 0", "after it")
}
