package tree

import (
	"context"
	"errors"
	"fmt"
	"path"
)

// Remote is a machine that is reached only by programs that run there: a guest through its agent.
type Remote interface {
	// Run runs a program there and returns why it failed. The error is setting.ErrInDoubt if its end was not seen.
	Run(ctx context.Context, stdin string, argv ...string) error
	// Fetch reads the machine's files into an empty tree.
	Fetch(ctx context.Context, into *Memory) error
}

// maxRemoteText is the longest text that is sent in one piece. virsh gets it in one argument, base64 in JSON, and the
// kernel takes 128 KiB for each (include/uapi/linux/binfmts.h, MAX_ARG_STRLEN).
const maxRemoteText = 64 << 10

// Remote fetches a machine's files into the tree and returns it. What is written to it is written on the machine first,
// as durably as on this one, and then in memory.
func (m *Memory) Remote(name string, r Remote) (*Tree, error) {
	t := m.Tree(name)
	t.remote = r
	return t, t.fetch()
}

// fetch reads all files again.
func (t *Tree) fetch() error {
	m := t.mem.m
	m.root.kids, m.bytes, m.made = map[string]*memFile{}, 0, 0
	return errors.Join(t.remote.Fetch(m.ctx, m), m.Err())
}

// there runs programs on the machine one after another. If one fails, files may be other than those in memory.
func (t *Tree) there(stdin string, programs ...[]string) error {
	for _, argv := range programs {
		if err := t.remote.Run(t.mem.m.ctx, stdin, argv...); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", argv[0], err), t.fetch())
		}
	}
	return nil
}

// replaceThere is Replace on a remote machine.
func (t *Tree) replaceThere(name, text string) error {
	if len(text) > maxRemoteText {
		return fmt.Errorf("/%s: larger than %d KiB, which is not sent to a guest", name, maxRemoteText>>10)
	}
	file, draft := "/"+name, "/"+Draft(name)
	mode := []string{"cp", "-p", file, draft} // an existing file keeps its permissions and owner
	write := []string{"dd", "of=" + draft, "conv=fsync"}
	programs := [][]string{mode, write}
	if !t.Exists(name) {
		programs = [][]string{write, {"chmod", "644", draft}}
	}
	if err := t.there(text, append(programs, []string{"mv", "-f", draft, file}, []string{"sync"})...); err != nil {
		return errors.Join(err, t.remote.Run(t.mem.m.ctx, "", "rm", "-f", draft))
	}
	return t.mem.m.File(name, text)
}

// copyThere is Copy on a remote machine.
func (t *Tree) copyThere(from, to, text string) error {
	draft := "/" + Draft(to)
	err := t.there("", []string{"cp", "-p", "/" + from, draft}, []string{"sync"},
		[]string{"mv", "-f", draft, "/" + to}, []string{"sync"})
	if err != nil {
		return err
	}
	return t.mem.m.File(to, text)
}

// removeThere removes a file or a directory with a program of a remote machine.
func (t *Tree) removeThere(name string, program ...string) error {
	if err := t.there("", append(program, "/"+name), []string{"sync"}); err != nil {
		return err
	}
	dir, err := t.mem.m.walk(*t.mem, path.Dir(name), true, false)
	if err == nil {
		delete(dir.kids, path.Base(name))
	}
	return err
}
