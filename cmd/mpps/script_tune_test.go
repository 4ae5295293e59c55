package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pathOf is a trial command: a path through the host below a root directory, whose rate some values of it decide. With
// a number behind it the trial of that number never ends, which the file "hangs" beside the root tells.
func pathOf() {
	root, hangs := os.Args[1], 0
	if len(os.Args) > 2 {
		hangs, _ = strconv.Atoi(os.Args[2])
	}
	is := func(name, value string) bool {
		text, err := os.ReadFile(filepath.Join(root, "proc/sys", name))
		if err != nil {
			panic(err)
		}
		return strings.TrimSpace(string(text)) == value
	}
	noise := rand.New(rand.NewPCG(1, 1))
	in := json.NewDecoder(os.Stdin)
	for n := 1; ; n++ {
		var trial struct{ PPS, Seconds float64 }
		if in.Decode(&trial) != nil {
			return
		}
		if n == hangs {
			if err := os.WriteFile(filepath.Join(root, "../hangs"), []byte("yes"), 0o644); err != nil {
				panic(err)
			}
			time.Sleep(time.Hour)
		}
		rate := 400e3
		if is("net/bridge/bridge-nf-call-iptables", "0") {
			rate *= 2
		}
		if is("kernel/numa_balancing", "0") {
			rate *= 0.8
		}
		sent := uint64(trial.PPS * trial.Seconds)
		came := uint64(rate * (1 + 0.01*noise.NormFloat64()) * trial.Seconds)
		fmt.Fprintf(os.Stdout, `{"sent":%d,"received":%d,"seconds":%g}`+"\n", sent, min(sent, came), trial.Seconds)
	}
}
