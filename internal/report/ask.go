package report

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// CanAsk reports whether a person can be asked: the input and standard error are terminals.
func (p *Printer) CanAsk(in io.Reader) bool { return columns(in) > 0 && columns(p.err) > 0 }

// Ask draws a view and a question on standard error, where neither --quiet nor --json hides them, and reports whether
// the answer is yes. It returns the cause if the context ends before there is an answer.
func (p *Printer) Ask(ctx context.Context, in io.Reader, view func(*Text), question string) (bool, error) {
	t := &Text{Color: p.color && columns(p.err) > 0, Width: p.width}
	view(t)
	p.clear()
	if _, err := fmt.Fprintf(p.err, "%s\n\n%s", strings.TrimRight(t.b.String(), "\n"), question); err != nil {
		return false, err
	}
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // an input that ends is no yes
		answer <- line
	}()
	select {
	case line := <-answer:
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(p.err)
		return false, context.Cause(ctx)
	}
}
