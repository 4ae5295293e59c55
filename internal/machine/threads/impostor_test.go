package threads

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestImpostor: a program that calls itself like a thread of the kernel is not taken for one, neither where it is read
// nor where it is written.
func TestImpostor(t *testing.T) {
	const name = "rcub/4711"
	cmd := exec.Command("sh", "-c", "printf "+name+" >/proc/$$/comm; exec 3<&0; read -r line <&3")
	in := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	named := func() bool {
		comm, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/comm")
		return strings.TrimSpace(string(comm)) == name
	}
	for end := time.Now().Add(10 * time.Second); !named() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	must.Need(t, named(), "the program has not taken the name")
	root := must.Get(tree.Open("/"))(t)
	defer root.Close()
	m := Mechanisms(root)[setting.ThreadSched]
	a := setting.Of(setting.ThreadSched, name)
	must.Equal(t, m.Read(t.Context(), a).State, setting.Absent, "read as")
	must.Refuse(t, m.Write(t.Context(), a, setting.Value("SCHED_FIFO 3")), "a program's scheduling was set")
}

// TestMovesOnlyTheKernels: the number of a kernel thread that ended may be a process's when its CPUs are written.
func TestMovesOnlyTheKernels(t *testing.T) {
	root := must.Get(tree.Open("/"))(t)
	defer root.Close()
	before := must.Get(getAffinity(os.Getpid()))(t)
	one := movable{tid: os.Getpid(), name: "ksoftirqd/0", cpus: before}
	if err := one.move(root, before[:1]); !ended(err) {
		t.Errorf("moved: %v", err)
	}
	if now, err := getAffinity(os.Getpid()); err != nil || now.String() != before.String() {
		t.Errorf("expected CPUs %s, found %s, %v", before, now, err)
	}
}
