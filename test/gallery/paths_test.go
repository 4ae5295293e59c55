package gallery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/placement"
)

// pathsInWords says for each kind of guest interface of a host what carries its packets, or that this is not judged.
func pathsInWords(m *Machine) string {
	paths := placement.PathsOf(m.Host)
	var parts []string
	for _, g := range m.Guests {
		for _, i := range g.NICs() {
			var devices []string
			for _, name := range paths.Behind(i) {
				devices = append(devices, m.nic(name).Driver)
			}
			part := fmt.Sprintf("%s: not judged", cmp.Or(i.Type, "unknown"))
			if len(devices) > 0 {
				part = fmt.Sprintf("%s, %s", i.Type, strings.Join(slices.Compact(devices), ", "))
			}
			if !contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	if len(parts) == 0 {
		return "no guest"
	}
	return strings.Join(parts, "; ")
}
