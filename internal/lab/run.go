package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Cmd is a command for L1.
type Cmd struct {
	Argv   []string  // program and arguments; or
	Script string    // a script for bash, run in a process of its own
	Stdin  io.Reader // read to its end before the command starts; nil: empty
	// Grace, if set, lets the program of Argv end by itself: when ctx ends it gets SIGINT, and SIGKILL only after this
	// time.
	Grace time.Duration
	// Stdout and Stderr, if set, get the output while the command runs; Result then has none of it.
	Stdout, Stderr io.Writer
}

// Result is the result of a command.
type Result struct {
	Stdout, Stderr string
	Code           int // exit status; 128 + number for a signal
}

// Err returns an error for a command that failed, with the end of its output.
func (r Result) Err() error {
	if r.Code == 0 {
		return nil
	}
	said := strings.TrimSpace(tail(r.Stderr, 5))
	if said == "" {
		said = strings.TrimSpace(tail(r.Stdout, 5))
	}
	return fmt.Errorf("exit status %d: %s", r.Code, said)
}

// Run runs a program in L1. A failing program is no error: see Result.Code.
func (l *Lab) Run(ctx context.Context, argv ...string) (Result, error) {
	return l.Exec(ctx, Cmd{Argv: argv})
}

// Shell runs a bash script in L1.
func (l *Lab) Shell(ctx context.Context, script string) (Result, error) {
	return l.Exec(ctx, Cmd{Script: script})
}

// Must is Shell for scripts that have to succeed; it returns their standard output.
func (l *Lab) Must(ctx context.Context, script string) (string, error) {
	r, err := l.Shell(ctx, script)
	if err == nil {
		err = r.Err()
	}
	return r.Stdout, err
}

// Exec runs a command in L1. Up to 8 run at a time, others wait. When ctx ends, the command's process group is killed.
// Its files are in a folder of the share, so that output of any size and kind arrives intact and separate.
func (l *Lab) Exec(ctx context.Context, c Cmd) (Result, error) {
	p, err := l.acquire(ctx)
	if err != nil {
		return Result{}, l.wrap(err)
	}
	id := l.newID()
	dir := filepath.Join(l.ShareDir(), ".cmd", id)
	if err := stageCommand(dir, c); err != nil {
		l.release(p)
		return Result{}, err
	}
	defer os.RemoveAll(dir)

	code, err := l.runStaged(ctx, p, id, dir, c)
	if err != nil {
		return Result{}, l.wrap(err)
	}
	l.release(p)
	r := Result{Code: code}
	if c.Stdout == nil {
		if r.Stdout, err = readAll(filepath.Join(dir, "out")); err != nil {
			return r, err
		}
	}
	if c.Stderr == nil {
		if r.Stderr, err = readAll(filepath.Join(dir, "err")); err != nil {
			return r, err
		}
	}
	return r, nil
}

// runStaged starts the staged command and waits for its end. After an error the port is closed.
func (l *Lab) runStaged(ctx context.Context, p *port, id, dir string, c Cmd) (code int, err error) {
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := p.ask("run", id); err != nil {
		return 0, err
	}
	followed := follow(dir, c)
	defer followed()
	pid, err := p.answer(ctx, id, "pid")
	if err == nil && c.Grace > 0 {
		var end context.CancelFunc
		ctx, end = l.withGrace(ctx, pid, c.Grace)
		defer end()
	}
	if err == nil {
		var rc string
		if rc, err = p.answer(ctx, id, "rc"); err == nil {
			return strconv.Atoi(rc)
		}
	}
	if ctx.Err() != nil && pid != "" {
		l.signalGroup("-KILL", pid)
	}
	return 0, err
}

// withGrace returns a context that outlasts ctx by grace: the time for the interrupted process group to end by itself.
func (l *Lab) withGrace(ctx context.Context, pid string, grace time.Duration) (context.Context, context.CancelFunc) {
	later, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		l.signalGroup("-INT", pid)
		time.AfterFunc(grace, end)
	})
	return later, func() { stop(); end() }
}

// signalGroup sends a signal to a process group in L1, through another port.
func (l *Lab) signalGroup(signal, pid string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// A failure shows as a port that stays busy, which acquire skips.
	_, _ = l.Exec(ctx, Cmd{Argv: []string{"/bin/kill", signal, "--", "-" + pid}})
}

// stageCommand writes the files of a command, and empty ones for its output.
func stageCommand(dir string, c Cmd) error {
	if (len(c.Argv) == 0) == (c.Script == "") {
		return errors.New("command for the lab: want either argv or a script")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if c.Grace > 0 && c.Script != "" {
		return errors.New("command for the lab: a script cannot be interrupted, want argv")
	}
	script := c.Script
	if len(c.Argv) > 0 {
		script = "exec " + quote(c.Argv)
	}
	if c.Grace > 0 {
		// The server runs in the background, where a shell makes its children ignore these signals.
		script = "exec env --default-signal=INT,QUIT " + quote(c.Argv)
	}
	for name, text := range map[string]string{"sh": script + "\n", "out": "", "err": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	in, err := os.Create(filepath.Join(dir, "in"))
	if err != nil {
		return err
	}
	if c.Stdin != nil {
		if _, err := io.Copy(in, c.Stdin); err != nil {
			in.Close()
			return err
		}
	}
	return in.Close()
}

// quote quotes words for a shell.
func quote(argv []string) string {
	q := make([]string, len(argv))
	for i, a := range argv {
		q[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(q, " ")
}

// follow copies output to its writers as it grows; finish copies the rest and ends that.
func follow(dir string, c Cmd) (finish func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	type pair struct {
		f *os.File
		w io.Writer
	}
	var pairs []pair
	for name, w := range map[string]io.Writer{"out": c.Stdout, "err": c.Stderr} {
		if w == nil {
			continue
		}
		if f, err := os.Open(filepath.Join(dir, name)); err == nil {
			pairs = append(pairs, pair{f, w})
		}
	}
	copyAll := func() {
		for _, p := range pairs {
			_, _ = io.Copy(p.w, p.f) // a writer that fails loses its output, not the command
		}
	}
	go func() {
		defer close(ended)
		for len(pairs) > 0 {
			select {
			case <-done:
				copyAll()
				for _, p := range pairs {
					p.f.Close()
				}
				return
			case <-time.After(50 * time.Millisecond):
				copyAll()
			}
		}
	}()
	return func() { close(done); <-ended }
}

func readAll(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

// ShareDir returns the folder of L0 that L1 sees as /share.
func (l *Lab) ShareDir() string { return filepath.Join(l.data, "share") }

// Put copies a file of L0 to /share/NAME, with its mode.
func (l *Lab) Put(name, local string) error {
	st, err := os.Stat(local)
	if err != nil {
		return err
	}
	dst, err := l.shared(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	return copyFile(local, dst, st.Mode().Perm())
}

// Install puts mpps into L1: into its share, and into /usr/local/bin, from where to run it. A program that starts from
// the share is read through virtio-fs each time, which takes seconds under emulation.
func (l *Lab) Install(ctx context.Context, local string) error {
	if err := l.Put("mpps", local); err != nil {
		return err
	}
	return l.installShared(ctx)
}

// installShared copies the share's mpps, if there is one, to /usr/local/bin.
func (l *Lab) installShared(ctx context.Context) error {
	_, err := l.Must(ctx, "[ ! -e /share/mpps ] || cmp -s /share/mpps /usr/local/bin/mpps || "+
		"{ mkdir -p /usr/local/bin && cd /usr/local/bin && cp /share/mpps .mpps && mv -f .mpps mpps; }")
	return err
}

// Get copies /share/NAME to a file of L0.
func (l *Lab) Get(name, local string) error {
	src, err := l.shared(name)
	if err != nil {
		return err
	}
	return copyFile(src, local, 0o644)
}

// shared returns the path of a name inside the share folder.
func (l *Lab) shared(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("share name %q: want a path inside the share", name)
	}
	return filepath.Join(l.ShareDir(), name), nil
}
