package kernel

import (
	"compress/gzip"
	"io"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// maxConfig is larger than the configuration of any kernel, in bytes.
const maxConfig = 4 << 20

// kernelConfig returns the build configuration of a kernel, if the kernel or its package has it.
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

// realtimeGroups reports whether each control group has its own realtime budget (CONFIG_RT_GROUP_SCHED); empty if
// unknown. With cgroup v1 only such kernels have the file (kernel/sched/core.c, cpu_legacy_files). With v2 there is no
// file, but the same refusal. Newer kernels have a switch (rt_group_sched=, CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED).
func realtimeGroups(m *tree.Tree, release, commandLine string) facts.Answer {
	for _, mount := range []string{"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"} {
		if m.Exists(mount + "/cpu.rt_runtime_us") {
			return facts.Yes
		}
	}
	config, found := kernelConfig(m, release)
	if !found {
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
