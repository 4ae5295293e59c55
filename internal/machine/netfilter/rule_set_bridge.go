package netfilter

import (
	"errors"
	"fmt"
	"strings"
)

// The longest line of ebtables-legacy-restore. It reads 2048 bytes, including the newline and a zero, into 50 words,
// including the program's name, and overruns either limit unchecked (EBTD_CMDLINE_MAXLN and EBTD_ARGC_MAX in ebtables
// 2.0.11, include/ebtables_u.h).
const (
	bridgeLineBytes = 2046
	bridgeLineWords = 48
)

var errBeyondRestore = errors.New("ebtables-legacy-restore cannot read back what ebtables-legacy prints")

// bridgeRules converts the output of "ebtables-legacy -t TABLE -L --Lx", commands such as "ebtables -t filter -A
// FORWARD …", into the format of ebtables-legacy-restore. empty reports whether there is no command. Policies stay
// commands (-P): the program does not read ":CHAIN POLICY" for built-in chains. ebtables-legacy-save is not used
// because it runs whatever "ebtables" is.
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
		// A quotation mark inside a log prefix is printed unescaped and would end it.
		quotes, prefixes := strings.Count(command, `"`), strings.Count(command, `-prefix "`)
		if len(command) > bridgeLineBytes || strings.Count(command, " ")+1 > bridgeLineWords || quotes != 2*prefixes {
			err = fmt.Errorf("%w: %.80q", errBeyondRestore, command)
		}
		b.WriteString(command + "\n")
		empty = false
	}
	return b.String(), empty, err
}
