package facts

import (
	"fmt"
	"path"
)

// lasting takes out where the program lies and how connections are called: people name those after places.
func (s *scrubber) lasting(c *Host) {
	if c.Lasting == nil {
		return
	}
	l := *c.Lasting
	if l.Program != "" {
		l.Program = "/usr/bin/mpps"
	}
	l.NetworkManager = append([]OwnedValue(nil), l.NetworkManager...)
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
