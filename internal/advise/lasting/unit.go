package lasting

import (
	_ "embed" // the units' texts
	"path"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
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
	return strings.ReplaceAll(template, "/usr/bin/mpps", quoted)
}

// WrittenUnits lists the names of the services whose files a plan writes.
func WrittenUnits(p *plan.Plan) (names []string) {
	for _, c := range p.Changes {
		switch c.Address {
		case unitFile, vfsFile, watchFile:
			if c.To.State == setting.Known {
				names = append(names, path.Base(c.Address.Path))
			}
		}
	}
	return names
}
