package lasting

import (
	"strings"

	"mpps/internal/model/setting"
)

// mark is in every file that mpps writes.
const mark = "Written by mpps"

const (
	sysctlHeader = `# Written by mpps: kernel parameters that 'mpps apply' has set, so that they are set again at boot.
# Undo: 'mpps rollback' puts the values and this file back; 'mpps history' lists what set them.
# 'mpps verify' reports what was changed here by hand.
`
	moduleHeader = `# Written by mpps: module parameters that 'mpps apply' has set, so that a module has them when it is loaded again.
# Undo: 'mpps rollback' puts the values and this file back; 'mpps history' lists what set them.
# A module that the initramfs loads reads its parameters there: run update-initramfs -u or dracut -f once.
`
	about = "Written by mpps: values that mpps-restore.service puts back after a reboot, an ifup, a driver's reload " +
		"or a guest's start. " +
		"Undo: 'mpps rollback' puts the values and this file back; 'mpps history' lists what set them."
)

// setLine replaces the line of a key, or adds it at the end. Other lines stay as they are, other people's too.
func setLine(text, key, line string) string {
	var out strings.Builder
	done := false
	for old := range strings.Lines(text) {
		if lineKey(old) == key {
			if !done {
				out.WriteString(line + "\n")
			}
			done = true
			continue
		}
		out.WriteString(old)
		if !strings.HasSuffix(old, "\n") {
			out.WriteString("\n")
		}
	}
	if !done {
		out.WriteString(line + "\n")
	}
	return out.String()
}

// lineKey returns what a line of sysctl.d or modprobe.d sets, "" if nothing: "net/core/dev_weight", "options kvm_intel
// ple_gap".
func lineKey(line string) string {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' || line[0] == ';' {
		return ""
	}
	key, _, found := strings.Cut(line, "=")
	if !found {
		return ""
	}
	if fields := strings.Fields(key); len(fields) == 3 && fields[0] == "options" {
		return strings.Join(fields, " ")
	}
	return setting.SysctlPath(strings.TrimSpace(strings.TrimPrefix(key, "-")))
}
