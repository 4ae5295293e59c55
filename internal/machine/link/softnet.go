package link

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// softnet reads the per-CPU counters of the receive softirq into h.Softnet.
func softnet(m *tree.Tree, h *facts.Host) {
	text, err := m.Read("proc/net/softnet_stat")
	if err == nil {
		h.Softnet, err = ParseSoftnet(text)
	}
	if err != nil {
		tree.AddUnseen(h, "softnet counters", err)
	}
	if text, err := m.Read("proc/softirqs"); err == nil {
		AddRounds(h.Softnet, text)
	}
}

// AddRounds sets the rounds of NET_RX in rows of CPUs, from /proc/softirqs (fs/proc/softirqs.c, show_softirqs: a column
// for each possible CPU).
func AddRounds(rows []facts.Softnet, text string) {
	header, rest, _ := strings.Cut(text, "\n")
	counts := map[string]uint64{}
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "NET_RX:" {
			continue
		}
		for i, name := range strings.Fields(header) {
			if i+1 < len(fields) {
				counts[name], _ = strconv.ParseUint(fields[i+1], 10, 64)
			}
		}
	}
	for i := range rows {
		rows[i].Rounds = counts["CPU"+strconv.Itoa(rows[i].CPU)]
	}
}

// ParseSoftnet reads /proc/net/softnet_stat (net/core/net-procfs.c, softnet_seq_show): hexadecimal columns, 9 up to
// 2.6.34, then received_rps as the 10th, flow_limit_count as the 11th since 3.11, backlog length and CPU number as the
// 12th and 13th since 5.10, two lengths of parts of the backlog since 6.7. There is a row for each online CPU. Without
// the CPU column the row's index is used, which is right only if all CPUs are online.
func ParseSoftnet(text string) ([]facts.Softnet, error) {
	var rows []facts.Softnet
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("softnet_stat: expected 9 columns or more, found %d in %q", len(fields),
				strings.TrimSpace(line))
		}
		columns := make([]uint64, max(13, len(fields)))
		for i, field := range fields {
			n, err := strconv.ParseUint(field, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("softnet_stat: expected hexadecimal numbers, found %q", field)
			}
			columns[i] = n
		}
		row := facts.Softnet{
			CPU: len(rows), Processed: columns[0], Dropped: columns[1], Squeezed: columns[2],
			RPS: columns[9], FlowLimit: columns[10], BacklogLen: columns[11],
		}
		if len(fields) >= 13 {
			row.CPU = int(columns[12] & 0xffff)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
