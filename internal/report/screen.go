package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Screen is a terminal taken over by a live view: the alternate screen, no echo, no cursor, keys one by one. Signals
// work as usual. Close must always be called: otherwise the user's shell has no echo.
type Screen struct {
	in    *os.File // the keyboard; nil: none
	out   *os.File
	color bool

	mu    sync.Mutex
	saved unix.Termios // the keyboard's original settings
	ours  bool         // the terminal is taken over
}

// ECMA-48 and xterm sequences: alternate screen without cursor, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// Screen takes over the terminal of standard output, with the keyboard where standard input is one. It is nil if output
// is no terminal, or one that can only go forward.
func (p *Printer) Screen(in io.Reader) (*Screen, error) {
	out, ok := p.out.(*os.File)
	if !ok || !Redraws(out) || os.Getenv("TERM") == "" {
		return nil, nil
	}
	p.clear()
	s := &Screen{out: out, color: p.color}
	if f, ok := in.(*os.File); ok {
		if found, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			s.in, s.saved = f, *found
		}
	}
	return s, s.Open()
}

// HasKeys reports whether there is a keyboard.
func (s *Screen) HasKeys() bool { return s.in != nil }

// Open takes the terminal over, also again after Close.
func (s *Screen) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ours {
		return nil
	}
	s.ours = true
	if s.in != nil {
		t := s.saved
		t.Lflag &^= unix.ICANON | unix.ECHO
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		if err := unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &t); err != nil {
			return fmt.Errorf("keyboard: %w", err)
		}
	}
	_, err := io.WriteString(s.out, enterScreen)
	return err
}

// Close restores the terminal.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ours {
		return nil
	}
	s.ours = false
	_, err := io.WriteString(s.out, leaveScreen)
	if s.in != nil {
		if e := unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, &s.saved); err == nil {
			err = e
		}
	}
	return err
}

// Guard restores the terminal if its goroutine panics. Every goroutine of a live view defers it.
func (s *Screen) Guard() {
	if r := recover(); r != nil {
		_ = s.Close() // the panic is what is reported
		panic(r)
	}
}

// Stop restores the terminal, stops the process as Ctrl-Z does, and takes the terminal over again after SIGCONT, which
// arrives on the caller's channel.
func (s *Screen) Stop(continued <-chan os.Signal) error {
	if err := s.Close(); err != nil {
		return err
	}
	if err := stopSelf(continued); err != nil {
		return errors.Join(fmt.Errorf("stop: %w", err), s.Open())
	}
	return s.Open()
}

// stopSelf stops the process by the kernel's default action for SIGTSTP, which does not stop an orphaned process group
// (is_current_pgrp_orphaned in kernel/signal.c). signal.Reset does not restore that action: Go's own handler stays.
// struct sigaction differs by architecture and has at most 32 bytes; all zeros mean SIG_DFL on all of them.
func stopSelf(continued <-chan os.Signal) error {
	action := func(set, was *[64]byte) error {
		const maskSize = 8
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(set)),
			uintptr(unsafe.Pointer(was)), maskSize, 0, 0)
		if e != 0 {
			return e
		}
		return nil
	}
	var byDefault, ours [64]byte
	if err := action(&byDefault, &ours); err != nil {
		return err
	}
	err := unix.Kill(os.Getpid(), unix.SIGTSTP)
	awaitContinued(continued)
	return errors.Join(err, action(&ours, nil))
}

// awaitContinued waits for SIGCONT, or until it is known that the process was not stopped. Where it was, the time is
// over once it runs again, which may be before Go has delivered the signal.
func awaitContinued(continued <-chan os.Signal) {
	const patience = 100 * time.Millisecond
	began := time.Now()
	select {
	case <-continued:
		return
	case <-time.After(patience):
	}
	if time.Since(began) > 2*patience {
		select {
		case <-continued:
		case <-time.After(time.Second):
		}
	}
}

// Size returns how many columns and lines the terminal has.
func (s *Screen) Size() (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// Draw replaces what the screen shows. The view gets a text of its width; it must not have more lines than the screen.
func (s *Screen) Draw(view func(*Text)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ours {
		return nil
	}
	width, rows := s.Size()
	t := &Text{Color: s.color, Width: width}
	view(t)
	lines := strings.Split(strings.TrimRight(t.b.String(), "\n"), "\n")
	lines = lines[:min(len(lines), rows)]
	_, err := io.WriteString(s.out, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
	return err
}

// Key is one press of a key: a character, or one of those below.
type Key string

// Keys without a character.
const (
	KeyUp        Key = "up"
	KeyDown      Key = "down"
	KeyLeft      Key = "left"
	KeyRight     Key = "right"
	KeyPageUp    Key = "page up"
	KeyPageDown  Key = "page down"
	KeyHome      Key = "home"
	KeyEnd       Key = "end"
	KeyEnter     Key = "enter"
	KeyEscape    Key = "escape"
	KeyBackspace Key = "backspace"
)

// sequences are what terminals send for them after an escape (xterm's and the console's).
var sequences = map[string]Key{
	"[A": KeyUp, "[B": KeyDown, "OA": KeyUp, "OB": KeyDown,
	"[C": KeyRight, "[D": KeyLeft, "OC": KeyRight, "OD": KeyLeft, "[5~": KeyPageUp, "[6~": KeyPageDown,
	"[H": KeyHome, "[F": KeyEnd, "OH": KeyHome, "OF": KeyEnd, "[1~": KeyHome, "[4~": KeyEnd, "[7~": KeyHome,
	"[8~": KeyEnd,
}

// Keys reads the keyboard until it ends. The channel is closed then; if there is no keyboard it never gives anything.
func (s *Screen) Keys() <-chan Key {
	keys := make(chan Key)
	if s.in == nil {
		return keys
	}
	go func() {
		defer s.Guard()
		defer close(keys)
		buffer := make([]byte, 256)
		rest := ""
		for {
			n, err := s.in.Read(buffer)
			if n > 0 {
				var all []Key
				all, rest = parseKeys(rest + string(buffer[:n]))
				for _, k := range all {
					keys <- k
				}
			}
			if err != nil || n == 0 {
				return
			}
		}
	}()
	return keys
}

// parseKeys reads what a terminal sent, and returns what is not complete yet.
func parseKeys(text string) (keys []Key, rest string) {
	for text != "" {
		switch c := text[0]; {
		case c == 0x1b:
			if len(text) == 1 || text[1] != '[' && text[1] != 'O' { // a key alone: sequences come in one piece
				keys, text = append(keys, KeyEscape), text[1:]
				continue
			}
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			if end < 0 {
				if len(text) > 16 { // no key is so long
					return keys, ""
				}
				return keys, text
			}
			if k, known := sequences[text[1:2+end+1]]; known {
				keys = append(keys, k)
			}
			text = text[2+end+1:]
		case c == '\r' || c == '\n':
			keys, text = append(keys, KeyEnter), text[1:]
		case c == 0x7f || c == 0x08:
			keys, text = append(keys, KeyBackspace), text[1:]
		default:
			if !utf8.FullRuneInString(text) {
				return keys, text
			}
			r, size := utf8.DecodeRuneInString(text)
			if unicode.IsPrint(r) && r != utf8.RuneError {
				keys = append(keys, Key(string(r)))
			}
			text = text[size:]
		}
	}
	return keys, ""
}
