//go:build netns

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestPathInterrupted: SIGINT ends watching with what was seen, as an answer like any other, and no word of progress
// where nobody watches a terminal.
func TestPathInterrupted(t *testing.T) {
	ns := "mq" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(time.Now().UnixNano()%1e5))
	for _, argv := range [][]string{
		{"ip", "netns", "add", ns},
		{"ip", "-n", ns, "link", "add", "eth0", "numtxqueues", "2", "numrxqueues", "2", "type", "veth", "peer", "name",
			"far0"},
		{"ip", "-n", ns, "link", "set", "eth0", "up"},
		{"ip", "-n", ns, "link", "set", "far0", "up"},
	} {
		if code, _, stderr := program(t, argv...); code != 0 {
			t.Fatalf("%v: %s", argv, stderr)
		}
	}
	t.Cleanup(func() { program(t, "ip", "netns", "del", ns) })
	tap, send, _ := openTap(t, "/run/netns/"+ns, "tap9")
	defer tap.Close()
	if code, _, stderr := program(t, "ip", "-n", ns, "link", "set", "tap9", "up"); code != 0 {
		t.Fatal(stderr)
	}
	cmd := start(t, "mpps", "path", "--netns", ns, "--for", "10m", "--every-packet", "--json")
	watches(t, cmd.Process.Pid)
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		must.Try(t, send(10))
		time.Sleep(10 * time.Millisecond)
	}
	if code := cmd.end(t, os.Interrupt); code != outcome.CodeOK {
		t.Fatalf("exit code %d: %s", code, &cmd.problems)
	}
	must.Hold(t, cmd.problems.Len() <= 0, "on standard error: %s", &cmd.problems)
	var answer struct {
		Schema string
		Result queuepath.Path
	}
	if err := json.Unmarshal(cmd.out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %.300s", err, &cmd.out)
	}
	if answer.Schema != "mpps.path/1" || !answer.Result.EveryPacket || answer.Result.Seconds <= 0 ||
		answer.Result.Seconds > 30 {
		t.Errorf("schema %s, every packet %v, %.1f s", answer.Schema, answer.Result.EveryPacket, answer.Result.Seconds)
	}
	var frames uint64
	for _, r := range answer.Result.Rows {
		if r.First() && r.To.Device == "tap9" && r.To.Direction == queuepath.Tx {
			frames += r.Frames
		}
	}
	must.Hold(t, frames != 0, "no frame was seen on its way to the tap: %+v", answer.Result.Rows)
	// In words, for a person: short, and of the same devices.
	code, text, complaint := program(t, "mpps", "path", "--netns", ns, "--for", "200ms")
	must.Hold(t, code == 0 && complaint == "" && strings.TrimSpace(text) != "",
		"exit %d, %q, %q", code, text, complaint)
	// And as a page, beside the words or in their place.
	page := filepath.Join(t.TempDir(), "path.html")
	if code, text, complaint = program(t, "mpps", "path", "--netns", ns, "--for", "200ms", "-o", page); code != 0 ||
		strings.TrimSpace(text) == "" {
		t.Errorf("exit %d, %q, %q", code, text, complaint)
	}
	written, err := os.ReadFile(page)
	code, text, complaint = program(t, "mpps", "path", "--netns", ns, "--for", "200ms", "-o", "-")
	must.Hold(t, err == nil && code == 0 && strings.HasPrefix(string(written), "<!doctype html>") &&
		strings.HasPrefix(text, "<!doctype html>") && strings.HasSuffix(text, "</html>\n"),
		"%v, exit %d, %.60q, %.60q, %q", err, code, written, text, complaint)
}

// watches waits until a process has attached the two programs that see packets, and returns the IDs of what it holds.
func watches(t *testing.T, pid int) (programs, links []int) {
	t.Helper()
	await(t, func() bool {
		programs, links = openBPF(t, pid)
		return len(links) >= 2
	}, func() string { return fmt.Sprintf("it holds the programs %v and the links %v", programs, links) })
	return programs, links
}

// TestPathKilled: what the command attaches goes with it, also by SIGKILL in the middle, since nothing of it is pinned.
func TestPathKilled(t *testing.T) {
	cmd := exec.Command("mpps", "path", "--for", "10m", "--every-packet")
	must.Do(t, cmd.Start())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	programs, links := watches(t, cmd.Process.Pid)
	must.Do(t, cmd.Process.Kill())
	cmd.Wait()
	await(t, func() bool { return inKernel(programs, links) == 0 }, func() string {
		return fmt.Sprintf("%d of the programs %v and the links %v are left", inKernel(programs, links), programs, links)
	})
}

// openBPF returns the programs and links of eBPF that a process has open (fdinfo in proc_pid_fdinfo(5)).
func openBPF(t *testing.T, pid int) (programs, links []int) {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fdinfo/*"))(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // closed meanwhile
		}
		var id int
		for line := range strings.Lines(string(text)) {
			if _, err := fmt.Sscanf(line, "prog_id: %d", &id); err == nil {
				programs = append(programs, id)
			}
			if _, err := fmt.Sscanf(line, "link_id: %d", &id); err == nil {
				links = append(links, id)
			}
		}
	}
	return programs, links
}
