package kernel

import (
	"compress/gzip"
	"io"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// maxConfig is more than the configuration of any kernel has, in bytes.
const maxConfig = 4 << 20

// kernelConfig is the configuration that a kernel was built with, where it or its package left that.
func kernelConfig(m *tree.Tree, release string) (string, bool) {
	if packed, err := m.Read("proc/config.gz"); err == nil {
		if r, err := gzip.NewReader(strings.NewReader(packed)); err == nil {
			r.Multistream(false)
			if text, err := io.ReadAll(io.LimitReader(r, maxConfig)); err == nil {
				return string(text), true
			}
		}
	}
	if release == "" || strings.Contains(release, "/") {
		return "", false
	}
	for _, name := range []string{"boot/config-" + release, "lib/modules/" + release + "/config"} {
		if text, err := m.Read(name); err == nil && strings.Contains(text, "CONFIG_") {
			return text, true
		}
	}
	return "", false
}

// realtimeGroups reports whether control groups have shares of realtime of their own. The file of version 1 is there
// with them only (kernel/sched/core.c, cpu_legacy_files); version 2 has no such file and the same refusal. Newer
// kernels have a switch (rt_group_sched=, CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED).
func realtimeGroups(m *tree.Tree, release, commandLine string) facts.Answer {
	for _, mount := range []string{"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"} {
		if m.Exists(mount + "/cpu.rt_runtime_us") {
			return facts.Yes
		}
	}
	config, told := kernelConfig(m, release)
	if !told {
		return ""
	}
	has := func(option string) bool { return strings.Contains("\n"+config, "\nCONFIG_"+option+"=y\n") }
	if !has("RT_GROUP_SCHED") {
		return facts.No
	}
	switch setting.ParseCommandLine(commandLine).Get("rt_group_sched").Value {
	case "0":
		return facts.No
	case "1":
		return facts.Yes
	}
	if has("RT_GROUP_SCHED_DEFAULT_DISABLED") {
		return facts.No
	}
	return facts.Yes
}
