package probe

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// symbol is a function of the kernel and its stage of the packet path.
type symbol struct {
	at    uint64
	name  string
	stage string // empty: its caller's
	slow  bool   // it waits for a lock
}

// symbols are the kernel's functions, sorted by address.
type symbols []symbol

// errHiddenAddresses is the error if the kernel hides its functions' addresses.
var errHiddenAddresses = errors.New("the kernel hides the addresses of its functions (kernel.kptr_restrict)")

// loadedSymbols reads the symbols once: a kernel has some hundred thousand and takes 0.1 s to list them. Modules that
// are loaded later are missing.
var loadedSymbols = sync.OnceValues(func() (symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseSymbols(f)
})

// parseSymbols reads /proc/kallsyms (kernel/kallsyms.c, s_show): address, type, name and, for modules, the module in
// brackets.
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
		return nil, errHiddenAddresses
	}
	slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// find returns the index of the function that contains an address; −1 if it is before the first.
func (s symbols) find(address uint64) int {
	at, exact := slices.BinarySearchFunc(s, address, func(of symbol, address uint64) int {
		return cmp.Compare(of.at, address)
	})
	if exact {
		return at
	}
	return at - 1
}
