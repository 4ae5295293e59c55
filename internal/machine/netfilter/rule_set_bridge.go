package netfilter

import (
	"errors"
	"fmt"
	"strings"
)

// What ebtables-legacy-restore takes of a line: it reads 2048 bytes at a time, the newline and a zero among them, into
// 50 words, the program's name among them, and goes on behind either bound without a look (EBTD_CMDLINE_MAXLN and
// EBTD_ARGC_MAX in ebtables 2.0.11, include/ebtables_u.h).
const (
	bridgeLineBytes = 2046
	bridgeLineWords = 48
)

var errBeyondRestore = errors.New("ebtables-legacy-restore cannot read back what ebtables-legacy prints")

// bridgeRules turns what "ebtables-legacy -t TABLE -L --Lx" prints, commands such as "ebtables -t filter -A FORWARD …",
// into what ebtables-legacy-restore reads, and reports whether there is nothing: no rule, no chain of its own, and
// policies that accept. Policies stay commands (-P): of built-in chains the program reads none in the form ":CHAIN
// POLICY". ebtables-legacy-save is not asked: it asks whatever "ebtables" is.
func bridgeRules(listing, table string) (text string, empty bool, err error) {
	var b strings.Builder
	b.WriteString("*" + table + "\n")
	empty = true
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		command, found := strings.CutPrefix(line, "ebtables -t "+table+" ")
		if !found {
			return "", false, fmt.Errorf("expected a command of ebtables for table %s, found %.80q", table, line)
		}
		// A quotation mark inside a log's prefix is printed as it is, and would end it.
		quotes, prefixes := strings.Count(command, `"`), strings.Count(command, `-prefix "`)
		if len(command) > bridgeLineBytes || strings.Count(command, " ")+1 > bridgeLineWords || quotes != 2*prefixes {
			err = fmt.Errorf("%w: %.80q", errBeyondRestore, command)
		}
		b.WriteString(command + "\n")
		empty = false
	}
	return b.String(), empty, err
}
