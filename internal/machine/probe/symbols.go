package probe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// symbol is a function of the kernel and the stage of the path that it belongs to.
type symbol struct {
	at    uint64
	name  string
	stage string // empty: that of its caller
	slow  bool   // it waits for a lock
}

// symbols are the kernel's functions in the order of their addresses.
type symbols []symbol

// errHidden says that the kernel does not tell where its functions are.
var errHidden = errors.New("the kernel hides the addresses of its functions (kernel.kptr_restrict)")

// loadedSymbols are read once: a kernel has some hundred thousand, and takes a tenth of a second to list them. Modules
// that are loaded later are not among them.
var loadedSymbols = sync.OnceValues(func() (symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseSymbols(f)
})

// parseSymbols reads /proc/kallsyms (kernel/kallsyms.c, s_show): address, type, name and, of those in modules, the
// module in brackets.
func parseSymbols(r io.Reader) (symbols, error) {
	var all symbols
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		address, rest, _ := strings.Cut(lines.Text(), " ")
		kind, rest, _ := strings.Cut(rest, " ")
		if len(kind) != 1 || !strings.Contains("tTwW", kind) {
			continue
		}
		name, module, _ := strings.Cut(rest, "\t")
		at, err := strconv.ParseUint(address, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/kallsyms: expected an address, found %.40q", lines.Text())
		}
		if at == 0 {
			continue
		}
		stage := stageOf(name, strings.Trim(module, "[]"))
		all = append(all, symbol{at: at, name: strings.Clone(name), stage: stage, slow: stage == stageLock})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errHidden
	}
	slices.SortStableFunc(all, func(a, b symbol) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	return all, nil
}

// find is the function that an address is in, −1 where it is before the first.
func (s symbols) find(address uint64) int {
	at, exact := slices.BinarySearchFunc(s, address, func(of symbol, address uint64) int {
		switch {
		case of.at < address:
			return -1
		case of.at > address:
			return 1
		}
		return 0
	})
	if exact {
		return at
	}
	return at - 1
}
