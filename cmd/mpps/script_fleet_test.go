package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"mpps/internal/model/facts"
	"mpps/internal/ops"
)

var anyMAC = regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)

// scramble writes a snapshot N times under other names of host, NICs, bridges, taps and guests, and with other MAC
// addresses: "scramble FILE DIR N" makes DIR/kvm-0.json and so on.
func scramble(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: scramble FILE DIR N")
	}
	h, err := ops.ReadSnapshot(ts.MkAbs(args[0]))
	ts.Check(err)
	for i := range number(ts, args[2]) {
		name := fmt.Sprintf("kvm-%d", i)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), name+".json"), scrambled(ts, h, name, i), 0o644))
	}
}

func scrambled(ts *testscript.TestScript, h *facts.Host, name string, i int) []byte {
	var text bytes.Buffer
	ts.Check(facts.Write(&text, h, version))
	names := []string{h.Name, name}
	for j, n := range h.NICs {
		names = append(names, n.Name, fmt.Sprintf("ens%dp%d", i+1, j))
	}
	for j, b := range h.Bridges {
		names = append(names, b.Name, fmt.Sprintf("brq%d%d", i, j))
	}
	for j, t := range h.Taps {
		names = append(names, t.Name, fmt.Sprintf("tap%dx%d", i, j))
	}
	for j, g := range h.Guests {
		names = append(names, g.Name, fmt.Sprintf("tenant%d-%d", i, j))
	}
	var pairs []string
	for j := 0; j < len(names); j += 2 {
		for _, around := range []string{`""`, "//", `"/`, `/"`, ":/", "''", "><", `."`, ".."} {
			begin, end := around[:1], around[1:]
			pairs = append(pairs, begin+names[j]+end, begin+names[j+1]+end)
		}
	}
	scrambled := strings.NewReplacer(pairs...).Replace(text.String())
	return anyMAC.ReplaceAllFunc([]byte(scrambled), func(mac []byte) []byte {
		return fmt.Appendf(nil, "%s%02x%s", mac[:9], i, mac[11:])
	})
}
