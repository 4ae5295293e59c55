package treetest

import (
	"strconv"
	"strings"
)

// StatLine returns a line of /proc/PID/stat with 52 fields, of which policy and priority matter.
func StatLine(pid int, comm string, policy, priority int) string {
	fields := make([]string, 50)
	for i := range fields {
		fields[i] = "0"
	}
	fields[0] = "S"
	fields[37], fields[38] = strconv.Itoa(priority), strconv.Itoa(policy)
	return strconv.Itoa(pid) + " (" + comm + ") " + strings.Join(fields, " ") + "\n"
}

// Merged returns several trees in one.
func Merged(trees ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, tree := range trees {
		for name, text := range tree {
			all[name] = text
		}
	}
	return all
}
