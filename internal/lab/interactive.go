package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminal is the command of the interactive shell: a pseudo-terminal of script(1) on the terminal port, which can only
// be opened once. The end of the shell ends the command.
const terminal = `exec 4<>/run/lab-tty || exit
exec script -q -f -c 'stty rows %d cols %d 2>/dev/null; export TERM=%s; exec bash -i' /dev/null <&4 >&4 4>&-
`

// Interactive runs a shell of L1 on a terminal of L0 (in must be a terminal; it is put into raw mode and restored).
// Each lab has one at a time. It ends with the shell or with ctx.
func (l *Lab) Interactive(ctx context.Context, in *os.File, out io.Writer) error {
	saved, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("interactive shell: standard input: want a terminal: %w", err)
	}
	raw := *saved
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL |
		unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &raw); err != nil {
		return err
	}
	defer unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, saved)
	rows, cols := 24, 80
	if w, err := unix.IoctlGetWinsize(int(in.Fd()), unix.TIOCGWINSZ); err == nil && w.Row > 0 && w.Col > 0 {
		rows, cols = int(w.Row), int(w.Col)
	}
	return l.Terminal(ctx, in, out, rows, cols)
}

// Terminal is Interactive without a terminal on L0: bytes in, bytes out. It returns when the shell ends; a pending read
// of in is abandoned.
func (l *Lab) Terminal(ctx context.Context, in io.Reader, out io.Writer, rows, cols int) error {
	p, err := openPort(l.dir, "porttty")
	if errors.Is(err, errBusy) {
		return fmt.Errorf("interactive shell of lab %s: another one is open", l.Name())
	}
	if err != nil {
		return l.wrap(err)
	}
	defer p.close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, p.out) // ends by the close or with L1
	}()
	go func() { _, _ = io.Copy(p.in, in) }()
	term := os.Getenv("TERM")
	if !termRE.MatchString(term) {
		term = "vt100"
	}
	r, err := l.Shell(ctx, fmt.Sprintf(terminal, rows, cols, term))
	drain(p.out, copied)
	if err != nil {
		return err
	}
	if err := r.Err(); err != nil { // of script: it does not pass the shell's status on
		return fmt.Errorf("interactive shell: %w", err)
	}
	return nil
}
