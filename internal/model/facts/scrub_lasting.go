package facts

import (
	"fmt"
	"path"
	"slices"
)

// lasting replaces the program's path and the names of connection profiles: people name those after places.
func (s *scrubber) lasting(c *Host) {
	if c.Lasting == nil {
		return
	}
	l := *c.Lasting
	if l.Program != "" {
		l.Program = "/usr/bin/mpps"
	}
	l.NetworkManager = slices.Clone(l.NetworkManager)
	profiles := map[string]string{}
	for i := range l.NetworkManager {
		file := &l.NetworkManager[i].File
		if profiles[*file] == "" {
			profiles[*file] = path.Join(path.Dir(*file), fmt.Sprintf("profile%d", len(profiles)+1))
		}
		*file = profiles[*file]
	}
	c.Lasting = &l
}
