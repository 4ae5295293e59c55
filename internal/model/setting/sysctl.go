package setting

import "strings"

// SysctlPath is the path of a kernel parameter below /proc/sys, as sysctl(8) finds it: dots separate, and a slash
// stands for a dot in a name ("net.ipv4.conf.eth0/100.rp_filter"); where the first separator is a slash it is the other
// way about.
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
