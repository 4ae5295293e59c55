package planted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// words are what names in braces in a scenario stand for.
func (s *scene) words() *strings.Replacer {
	pairs := []string{"{nic}", nicName, "{bridge}", bridgeName, "{tunnel}", tunnelName, "{uplink}", s.uplink(),
		"{wire_mac}", s.wireMAC.String(), "{mpps}", s.mpps, "{wire_ns}", s.wire.netns}
	for i, e := range s.ends {
		own := []string{"port", e.port, "mac", e.mac.String(), "ip", e.ip.String()}
		if e.place != nil {
			own = append(own, "ns", e.place.netns)
		}
		for j := 0; j < len(own); j += 2 {
			if i == 0 {
				pairs = append(pairs, "{"+own[j]+"}", own[j+1])
			}
			pairs = append(pairs, "{"+e.Name+"."+own[j]+"}", own[j+1])
		}
	}
	for i, n := range s.cpus {
		pairs = append(pairs, fmt.Sprintf("{cpu%d}", i), strconv.Itoa(n), fmt.Sprintf("{mask%d}", i),
			strconv.FormatUint(1<<n, 16))
	}
	return strings.NewReplacer(pairs...)
}

// plant does one step.
func (s *scene) plant(ctx context.Context, step Step) error {
	switch {
	case step.Run != nil:
		return s.run(ctx, step.Run)
	case step.Write != nil:
		return s.write(step.Write)
	case step.Hog != nil:
		a, err := startActor(ctx, "hog", part{Comm: "hog", CPUs: s.real(step.Hog.CPUs),
			Hog: &hogPart{Threads: step.Hog.Threads, Nice: step.Hog.Nice, Realtime: step.Hog.Realtime}})
		if err != nil {
			return err
		}
		s.later(a.stop)
		return nil
	case step.Filter != nil:
		return s.filter(step.Filter)
	case step.Capture != nil:
		c := &capturePart{Device: s.words().Replace(step.Capture.Device), Sockets: step.Capture.Sockets}
		a, err := startActor(ctx, "capture", part{Netns: s.host.netns, Comm: "tcpdump", CPUs: s.real(step.Capture.CPUs),
			Capture: c})
		if err != nil {
			return err
		}
		s.later(a.stop)
		return nil
	}
	return s.limit(step.Quota)
}

// at is the namespace of a place by its name.
func (s *scene) at(name string) *place {
	switch name {
	case "", host:
		return s.host
	case wire:
		return s.wire
	}
	for _, e := range s.ends {
		if e.Name == name && e.place != nil {
			return e.place
		}
	}
	return s.host // a guest's devices are there
}

// text is what goes to a program's standard input.
func (r *Run) text() string {
	var b strings.Builder
	b.WriteString(r.Input)
	for i := range r.Lines.Count {
		line := strings.ReplaceAll(r.Lines.Text, "{i256}", fmt.Sprintf("%d.%d", i/256, i%256))
		b.WriteString(strings.ReplaceAll(line, "{i}", strconv.Itoa(i)) + "\n")
	}
	b.WriteString(r.After)
	return b.String()
}

func (s *scene) run(ctx context.Context, r *Run) error {
	words := s.words()
	argv := []string{"netns", "exec", s.at(r.In).netns}
	for _, word := range r.Argv {
		argv = append(argv, words.Replace(word))
	}
	c := exec.CommandContext(ctx, "ip", argv...)
	c.Stdin = strings.NewReader(words.Replace(r.text()))
	if r.Background {
		if err := c.Start(); err != nil {
			return err
		}
		s.later(func() error {
			_ = c.Process.Signal(os.Interrupt) // gone already, then
			timer := time.AfterFunc(5*time.Second, func() { _ = c.Process.Kill() })
			defer timer.Stop()
			_ = c.Wait() // it was interrupted: how it ends says nothing
			return nil
		})
		time.Sleep(time.Duration(r.Wait * float64(time.Second)))
		return nil
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv[3:], " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// write writes a file, and if it is one of the whole kernel puts the text back at the end.
func (s *scene) write(w *Write) error {
	words := s.words()
	file, text := words.Replace(w.File), words.Replace(w.Text)
	if wholeKernel(file) { // it is not in other namespaces than the first
		before, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s.later(func() error { return os.WriteFile(file, before, 0) })
		return os.WriteFile(file, []byte(text), 0)
	}
	if err := s.host.write(file, text); err != nil {
		return fmt.Errorf("write %q: %w", text, err)
	}
	return nil
}

const quotaPeriod = 100_000 // µs

// limit puts the process of an end into a control group with a quota, of whichever version has the cpu controller.
func (s *scene) limit(q *Quota) error {
	var e *placedEnd
	for _, each := range s.ends {
		if each.Name == q.Of {
			e = each
		}
	}
	quota := strconv.Itoa(int(q.CPUs * quotaPeriod))
	root, file, text := "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		if root, file, text = "/sys/fs/cgroup", "cpu.max", quota+" "+strconv.Itoa(quotaPeriod); !hasController(root,
			"cpu") {
			return errors.New("quota: no control groups with the cpu controller below /sys/fs/cgroup")
		}
	}
	group := filepath.Join(root, s.base+q.Of)
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	pid := strconv.Itoa(e.actor.process.Process.Pid)
	s.later(func() error { return leave(root, group, pid) })
	if err := os.WriteFile(filepath.Join(group, file), []byte(text), 0o644); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0o644); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	return nil
}

// hasController reports whether a hierarchy of version 2 gives its children a controller.
func hasController(root, name string) bool {
	text, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	return err == nil && strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+name+" ")
}

// leave moves a process out of its control group, so that it ends at its usual speed, and removes the group.
func leave(root, group, pid string) error {
	if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(pid), 0o644); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	return os.Remove(group)
}
