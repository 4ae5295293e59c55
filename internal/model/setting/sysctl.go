package setting

import "strings"

// SysctlPath returns the path of a kernel parameter below /proc/sys, by the rules of sysctl(8): dots separate, and a
// slash stands for a dot in a name ("net.ipv4.conf.eth0/100.rp_filter"). If the first separator is a slash, the name is
// the path.
func SysctlPath(name string) string {
	if at := strings.IndexAny(name, "./"); at >= 0 && name[at] == '/' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}
