package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone: L1 is gone; Lab.Reason may say why.
var ErrGone = errors.New("the lab host is gone")

// errBusy: another process holds the port.
var errBusy = errors.New("port is busy")

// port is a port of L1, for commands or the terminal, used by one process at a time: the lock is between processes.
type port struct {
	lock, in, out *os.File
	r             *bufio.Reader
}

// openPort takes a port if no other process holds it, else it returns errBusy. It returns ErrGone until QEMU has opened
// its pipes.
func openPort(dir, name string) (*port, error) {
	lock, err := openLock(filepath.Join(dir, name+".lock"))
	if err != nil {
		return nil, err
	}
	p := &port{lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		p.close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errBusy
		}
		return nil, err
	}
	// Non-blocking, so that deadlines work on the pipes.
	if p.in, err = os.OpenFile(filepath.Join(dir, name+".in"), os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		p.out, err = os.OpenFile(filepath.Join(dir, name+".out"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		p.close()
		if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) {
			return nil, ErrGone
		}
		return nil, err
	}
	p.r = bufio.NewReader(p.out)
	return p, nil
}

func (p *port) close() {
	for _, f := range []*os.File{p.in, p.out, p.lock} {
		if f != nil {
			f.Close()
		}
	}
}

// ask sends a request line.
func (p *port) ask(verb, id string) error {
	p.in.SetWriteDeadline(time.Now().Add(5 * time.Second))
	// The leading newline ends whatever a client that died left unfinished.
	if _, err := fmt.Fprintf(p.in, "\n%s %s\n", verb, id); err != nil {
		if errors.Is(err, syscall.EPIPE) {
			return ErrGone
		}
		return err
	}
	return nil
}

// answer reads up to the answer of that kind to request id; it skips answers to others.
func (p *port) answer(ctx context.Context, id, kind string) (string, error) {
	p.out.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { p.out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			switch {
			case ctx.Err() != nil:
				return "", ctx.Err()
			case errors.Is(err, io.EOF):
				return "", ErrGone
			}
			return "", err
		}
		if v, ok := parseAnswer(line, id, kind); ok {
			return v, nil
		}
	}
}

// parseAnswer reads "@@ ID KIND [VALUE]".
func parseAnswer(line, id, kind string) (value string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 3 || f[0] != "@@" || f[1] != id || f[2] != kind {
		return "", false
	}
	if len(f) > 3 {
		value = f[3]
	}
	return value, true
}

// ping returns nil if the port's server is idle.
func (p *port) ping(ctx context.Context, id string) error {
	if err := p.ask("ping", id); err != nil {
		return err
	}
	_, err := p.answer(ctx, id, "pong")
	return err
}

// acquire returns a port whose server is idle, from this handle's own or a new one. It waits while all are taken.
func (l *Lab) acquire(ctx context.Context) (*port, error) {
	for {
		l.mu.Lock()
		if n := len(l.idle); n > 0 {
			p := l.idle[n-1]
			l.idle = l.idle[:n-1]
			l.mu.Unlock()
			return p, nil
		}
		l.mu.Unlock()
		for _, name := range portNames()[:ports] {
			p, err := openPort(l.dir, name)
			if errors.Is(err, errBusy) {
				continue
			}
			if err != nil {
				return nil, err
			}
			pingCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
			err = p.ping(pingCtx, l.newID())
			cancel()
			if err == nil {
				return p, nil
			}
			p.close()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if errors.Is(err, ErrGone) {
				return nil, err
			}
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("no free command port of %d: %w", ports, err)
		}
	}
}

func (l *Lab) release(p *port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		p.close()
		return
	}
	l.idle = append(l.idle, p)
}

// newID returns an ID for a request, unique among all processes, since several may use a port one after the other.
func (l *Lab) newID() string {
	return strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" +
		strconv.FormatUint(l.serial.Add(1), 36)
}
