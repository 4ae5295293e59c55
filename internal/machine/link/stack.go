package link

import (
	"path"
	"strconv"
	"strings"

	"mpps/internal/machine/ovs"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
)

// stack reads the counters that the kinds of path of this host decide by.
func stack(m *tree.Tree, h *facts.Host) {
	if counters := reach.Counters(h); len(counters) > 0 {
		h.Stack = ReadStack(m, "proc/net", counters)
	}
}

// ReadStack returns counters of a network namespace's network layer, by their keys, from its folder of /proc/net. Those
// that the kernel does not have are missing: tables of neighbours have files in the first namespace only
// (net/core/neighbour.c, neigh_table_init), and connections only where something tracks them.
func ReadStack(m *tree.Tree, folder string, counters []reach.Counter) map[string]uint64 {
	found, files := map[string]uint64{}, map[string]map[string]uint64{}
	for _, c := range counters {
		values, read := files[c.File]
		if !read {
			if c.File == reach.Datapaths {
				values = ovs.Counters(m)
			} else {
				values = readCounters(m, path.Join(folder, c.File))
			}
			files[c.File] = values
		}
		if n, has := values[c.Name]; has {
			found[c.Key()] = n
		}
	}
	return found
}

// readCounters returns the counters of a file below /proc/net; none if there is no such file.
func readCounters(m *tree.Tree, file string) map[string]uint64 {
	text, err := m.Read(file)
	switch {
	case err != nil:
		return nil
	case path.Base(path.Dir(file)) == "stat":
		return parseStat(text)
	case path.Base(file) == "snmp6":
		return parseSNMP6(text)
	}
	return ParseSNMP(text)
}

// parseStat returns the columns of a file of /proc/net/stat: a line of names, then a line of hexadecimal numbers for
// each CPU. Each has the same number of entries, that of the table; the others are added up.
func parseStat(text string) map[string]uint64 {
	counters := map[string]uint64{}
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if names == nil {
			names = fields
			continue
		}
		for i, field := range fields[:min(len(names), len(fields))] {
			n, err := strconv.ParseUint(field, 16, 64)
			switch {
			case err != nil:
			case names[i] == "entries":
				counters[names[i]] = n
			default:
				counters[names[i]] += n
			}
		}
	}
	return counters
}

// ParseSNMP returns the counters in /proc/net/snmp or netstat, which have a line of names above a line of numbers, as
// "Udp.InDatagrams".
func ParseSNMP(text string) map[string]uint64 {
	counters := map[string]uint64{}
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if names == nil || names[0] != fields[0] {
			names = fields
			continue
		}
		for i := 1; i < min(len(names), len(fields)); i++ {
			if n, err := strconv.ParseUint(fields[i], 10, 64); err == nil {
				counters[strings.TrimSuffix(names[0], ":")+"."+names[i]] = n
			}
		}
		names = nil
	}
	return counters
}

// parseSNMP6 returns the counters in /proc/net/snmp6, which has a name and a number on each line
// (net/ipv6/proc.c, snmp6_seq_show).
func parseSNMP6(text string) map[string]uint64 {
	counters := map[string]uint64{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 {
			if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				counters[fields[0]] = n
			}
		}
	}
	return counters
}
