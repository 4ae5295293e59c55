package lasting

import (
	_ "embed" // the units' texts
	"strings"
)

// unitTemplate is a copy of deploy/systemd/mpps-restore.service, which go:embed cannot reach, vfsTemplate one of
// mpps-vfs.service, watchTemplate one of mpps-watch.service; a test compares them.
var (
	//go:embed mpps-restore.service
	unitTemplate string
	//go:embed mpps-vfs.service
	vfsTemplate string
	//go:embed mpps-watch.service
	watchTemplate string
)

// unitText returns a unit of deploy/systemd for a program that did not come in a package.
func unitText(template, program string) string {
	quoted := program
	if strings.ContainsAny(program, " \t\"'\\%$") {
		quoted = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(program) + `"`
	}
	return strings.Replace(template, "/usr/bin/mpps", quoted, 1)
}
