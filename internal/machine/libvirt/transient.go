package libvirt

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/owned"
)

// Transient are running guests without a persistent definition. libvirt ends them with the connection of the virsh that
// created them (VIR_DOMAIN_START_AUTODESTROY, src/conf/domain_conf.c and src/qemu/qemu_process.c), and that virsh ends
// with this process, also by SIGKILL.
type Transient struct {
	virsh  Virsh
	holder *exec.Cmd
	to     io.WriteCloser
	said   *tail
	uuids  []string
}

// createPatience is how long libvirt may take to start all guests; endPatience, to end them.
const (
	createPatience = 4 * time.Minute
	endPatience    = 30 * time.Second
)

// tail keeps the end of what a program prints.
type tail struct{ lines []string }

const tailLines = 4

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	t.lines = t.lines[max(len(t.lines)-tailLines, 0):]
}

// openVirsh returns virsh on the live machine.
func openVirsh(m *tree.Tree) (Virsh, error) {
	l, err := Open(m)
	if err != nil {
		return Virsh{}, err
	}
	v, live := l.(Virsh)
	if !live {
		return Virsh{}, tree.ErrNotLive
	}
	return v, nil
}

// CreateTransient starts the guests of definitions that are in files, by their UUIDs. If one does not start, none is
// left.
func CreateTransient(ctx context.Context, m *tree.Tree, files, uuids []string) (*Transient, error) {
	v, err := openVirsh(m)
	if err != nil {
		return nil, err
	}
	t := &Transient{virsh: v, uuids: uuids, said: &tail{}}
	if err = t.create(ctx, files); err == nil {
		err = t.check(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.End(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// create starts the virsh that holds the guests, and waits until it has done its commands.
func (t *Transient) create(ctx context.Context, files []string) error {
	t.holder = exec.Command(t.virsh.argv[0], t.virsh.words()...)
	t.holder.Env = append(os.Environ(), "LC_ALL=C")
	var err error
	if t.to, err = t.holder.StdinPipe(); err != nil {
		return err
	}
	out, err := t.holder.StdoutPipe()
	if err != nil {
		return err
	}
	t.holder.Stderr = t.holder.Stdout // one pipe, so that errors stand before the mark
	if err := owned.Start(t.holder); err != nil {
		t.holder = nil
		return err
	}
	// virsh ends no line after 'echo', but says a whole line, at once, of a command that it does not know.
	mark := "mpps-" + rand.Text()
	done := make(chan bool, 1)
	go func() { t.listen(out, mark, done) }()
	var script strings.Builder
	for _, file := range files {
		script.WriteString("create --autodestroy --file " + Quote(file) + "\n")
	}
	script.WriteString(mark + "\n")
	if _, err := io.WriteString(t.to, script.String()); err != nil {
		return fmt.Errorf("virsh: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, createPatience)
	defer cancel()
	select {
	case complete := <-done:
		if !complete {
			return fmt.Errorf("virsh has ended: %s", strings.Join(t.said.lines, "; "))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("libvirt has not started the guests: %w", context.Cause(ctx))
	}
}

// listen reads what virsh prints until it ends, and reports whether the mark came.
func (t *Transient) listen(out io.Reader, mark string, done chan<- bool) {
	lines, marked := bufio.NewScanner(out), false
	for lines.Scan() {
		_, complaint, complains := strings.Cut(lines.Text(), "error: ") // without readline, behind the prompt
		switch {
		case marked || !complains:
		case strings.Contains(complaint, mark):
			marked = true
			done <- true
		default:
			t.said.add(strings.TrimSpace(complaint))
		}
	}
	if !marked {
		done <- false
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
}

// check reads back whether all guests run.
func (t *Transient) check(ctx context.Context) error {
	for _, uuid := range t.uuids {
		if _, err := t.virsh.running(ctx, uuid); err != nil {
			return fmt.Errorf("a guest did not start: %s", strings.Join(append(t.said.lines, err.Error()), "; "))
		}
	}
	return nil
}

// End ends the guests, and returns once libvirt knows none of them.
func (t *Transient) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	var errs []error
	for _, uuid := range t.uuids {
		errs = append(errs, t.virsh.end(ctx, uuid))
	}
	if t.holder == nil {
		return errors.Join(errs...)
	}
	errs = append(errs, t.to.Close())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = t.holder.Wait() // with the code of its last command
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		errs = append(errs, t.holder.Process.Kill())
		<-ended
	}
	return errors.Join(errs...)
}

// end ends a guest by its UUID. One that is gone is no error.
func (v Virsh) end(ctx context.Context, uuid string) error {
	_, err := v.running(ctx, uuid)
	if errors.Is(err, errNoGuest) {
		return nil
	}
	if err == nil {
		err = v.change(ctx, "", "destroy", "--domain", uuid)
	}
	if _, gone := v.running(ctx, uuid); errors.Is(gone, errNoGuest) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end guest %s: %w", uuid, err)
	}
	return fmt.Errorf("guest %s still runs", uuid)
}

// EndMarked ends a guest that has a mark, by its UUID. It leaves one without the mark alone, and reports whether such a
// guest has the UUID.
func EndMarked(ctx context.Context, m *tree.Tree, uuid string, mark domain.Mark) (other bool, err error) {
	v, err := openVirsh(m)
	if err != nil {
		return false, err
	}
	return v.endMarked(ctx, uuid, mark)
}

func (v Virsh) endMarked(ctx context.Context, uuid string, mark domain.Mark) (other bool, err error) {
	text, err := v.running(ctx, uuid)
	if errors.Is(err, errNoGuest) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	doc, err := domain.ParseLive([]byte(text))
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(doc.Guest().Marks, mark.SameAs) {
		return true, nil
	}
	return false, v.end(ctx, uuid)
}
