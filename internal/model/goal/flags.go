package goal

import (
	"fmt"
	"strconv"
	"strings"
)

// Flags returns the goal as command-line flags.
func (g Goal) Flags() string {
	var words []string
	add := func(name, value string) { words = append(words, "--"+name+" "+value) }
	if g.PPS > 0 {
		add("pps", strconv.FormatFloat(g.PPS, 'f', -1, 64))
	}
	if g.Frame != 0 && g.Frame != 64 {
		add("frame", strconv.Itoa(g.Frame))
	}
	if g.Loss > 0 {
		add("loss", strconv.FormatFloat(g.Loss, 'f', -1, 64))
	}
	if g.Bulk > 0 {
		add("bulk", strconv.FormatFloat(g.Bulk, 'f', -1, 64))
	}
	if g.Latency > 0 {
		add("latency", strings.ReplaceAll(g.Latency.String(), "µ", "u"))
	}
	if len(g.CPUs) > 0 {
		add("cpus", g.CPUs.String())
	}
	if g.Guest != "" {
		add("guest", g.Guest)
	}
	if g.NIC != "" {
		add("nic", g.NIC)
	}
	if len(g.DataNICs) > 0 {
		add("data-nic", strings.Join(g.DataNICs, ","))
	}
	if len(g.Leave) > 0 {
		add("leave", strings.Join(g.Leave, ","))
	}
	if len(g.Consent) > 0 {
		add("consent", strings.Trim(strings.ReplaceAll(fmt.Sprint(g.Consent), " ", ","), "[]"))
	}
	return strings.Join(words, " ")
}
