package catalogue

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed exceptions.txt
var exceptionsText string

// Exception is a knob that TestCatalogue does not set.
type Exception struct {
	ID     string
	On     string   // what it is proven on instead
	By     []string // names of the tests
	Reason string   // why not by TestCatalogue
}

// Exceptions are those of exceptions.txt, by knob.
func Exceptions() (map[string]Exception, error) {
	all := map[string]Exception{}
	for l := range strings.Lines(exceptionsText) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		fields := strings.Split(l, "|")
		if len(fields) != 4 {
			return nil, fmt.Errorf("exceptions.txt: expected KNOB | ON | TESTS | REASON, found %q", l)
		}
		for i := range fields {
			if fields[i] = strings.TrimSpace(fields[i]); fields[i] == "" {
				return nil, fmt.Errorf("exceptions.txt: field %d is empty in %q", i+1, l)
			}
		}
		if _, twice := all[fields[0]]; twice {
			return nil, fmt.Errorf("exceptions.txt: %s is given twice", fields[0])
		}
		all[fields[0]] = Exception{ID: fields[0], On: fields[1], By: strings.Split(fields[2], ", "), Reason: fields[3]}
	}
	return all, nil
}
