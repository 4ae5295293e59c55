package realtime

import "github.com/kballard/go-shellquote"

// word quotes a name in a command for a shell: control groups, guests and processes are named by others.
func word(name string) string { return shellquote.Join(name) }
