package knob

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestLintRealLines: command lines of real hosts and of our own advice have nothing odd about them.
func TestLintRealLines(t *testing.T) {
	for _, line := range []string{
		"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14.0-427.13.1.el9_4.x86_64 root=/dev/mapper/rhel-root ro " +
			"crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M resume=/dev/mapper/rhel-swap rd.lvm.lv=rhel/root " +
			"rd.lvm.lv=rhel/swap rhgb quiet nohz=on nohz_full=1-5 rcu_nocbs=1-5 isolcpus=1-5 mitigations=off " +
			"transparent_hugepage=never intel_pstate=disable nosoftlockup irqaffinity=0 processor.max_cstate=1 " +
			"spectre_v2=off iommu=pt",
		"BOOT_IMAGE=/boot/vmlinuz-6.1.0-40-amd64 root=UUID=6fb441ef-c9ed-4df8-8f94-51a61b314603 ro console=tty0 " +
			"console=ttyS0,115200 earlyprintk=ttyS0,115200 consoleblank=0 net.ifnames=0 biosdevname=0 quiet splash " +
			"vt.handoff=7",
		"root=/dev/mapper/ocivolume-root ro LANG=en_US.UTF-8 rd.luks=0 rd.md=0 rd.net.timeout.dhcp=10 " +
			"netroot=iscsi:169.254.0.2:::1:iqn.2015-02.oracle.boot:uefi nvme_core.shutdown_timeout=10 " +
			"ipmi_si.tryacpi=0 libiscsi.debug_libiscsi_eh=1 loglevel=4 crash_kexec_post_notifiers",
		"noibrs noibpb nopti nospectre_v2 nospectre_v1 l1tf=off nospec_store_bypass_disable no_stf_barrier mds=off " +
			"mitigations=off",
		"skew_tick=1 tsc=nowatchdog nmi_watchdog=0 rcu_nocb_poll idle=poll intel_idle.max_cstate=0 " +
			"pcie_aspm.policy=performance default_hugepagesz=1G hugepagesz=1G hugepages=0:8,1:8 intel_iommu=on " +
			"mce=ignore_ce nosmt cgroup_enable=memory swapaccount=1 systemd.unified_cgroup_hierarchy=0 audit=0 " +
			"selinux=0 apparmor=1 security=apparmor panic=10 reboot=k pci=realloc random.trust_cpu=1 swiotlb=noforce " +
			"psi=1",
	} {
		if odd, _ := lint(setting.ParseCommandLine(line), nil); len(odd) > 0 {
			t.Errorf("odd: %v", odd)
		}
	}
}

func TestLintSlips(t *testing.T) {
	modules := map[string]facts.ModuleArgument{"kvm_intel.plegap": facts.ParameterMissing,
		"kvm_intel.ple_window": facts.ParameterKnown}
	for word, near := range map[string]string{
		"pcie_asmp=off": "pcie_aspm", "nohz_ful=2": "nohz_full", "isolcpu=2-5": "isolcpus", "rcu_nocb=2": "rcu_nocbs",
		"intel_iomu=on": "intel_iommu", "hugepagez=4": "hugepages", "mitigation=off": "mitigations",
		"default_hugepagesize=1G": "default_hugepagesz", "intel_idle.max_cstates=0": "intel_idle.max_cstate",
		"processor.max_cstat=1": "processor.max_cstate", "transparent_hugepages=never": "transparent_hugepage",
		"quite": "quiet", "amd_iommu=on": "", "kvm_intel.plegap=0": "",
	} {
		odd, _ := lint(setting.CommandLine{"ro", word, "quiet"}, modules)
		if len(odd) != 1 || odd[0].word != word || near != "" && !slices.Contains(odd[0].near, near) {
			t.Errorf("%s: %v, expected %q", word, odd, near)
		}
	}
	for _, word := range []string{"our_own=1", "kvm_intel.ple_window=1", "i915.enable_psr=0", "xyz", "amd_iommu=off",
		"systemd.anything=1", "PCIE=1", "kvm_amd.avic=on"} {
		if odd, _ := lint(setting.CommandLine{word}, modules); len(odd) > 0 {
			t.Errorf("%s is called odd: %v", word, odd)
		}
	}
	if odd, passed := lint(setting.ParseCommandLine("ro our_own=1 -- pcie_asmp=off"), nil); len(odd) != 0 ||
		len(passed) != 1 {
		t.Errorf("%v, %v: what stands behind -- is for init", odd, passed)
	}
}

// TestOwnArguments: mpps writes no argument that its own dictionary does not know.
func TestOwnArguments(t *testing.T) {
	names := documented()
	must.Need(t, len(names) >= 900, "%d documented names, expected about a thousand", len(names))
	h := everything()
	for _, release := range []string{"6.12.0", "4.18.0", "3.10.0-957.el7.x86_64"} {
		h.Kernel.Release = release
		for _, a := range Addresses(h, Catalogue()) {
			if a.Kind != setting.KernelArg {
				continue
			}
			for name := range strings.SplitSeq(a.Path, "+") {
				if !names[setting.ArgumentName(name)] && !forUserSpace(name) {
					t.Errorf("%s is no documented argument", name)
				}
			}
		}
	}
}

func TestAttestable(t *testing.T) {
	catalogue := map[string]bool{GuestsOwner: true}
	for _, k := range Catalogue() {
		catalogue[k.ID] = true
	}
	for _, id := range AttestableIDs() {
		if values, _ := Attestable(id); !catalogue[id] || len(values) < 2 {
			t.Errorf("%s can be attested and is no check, or has no choice: %v", id, values)
		}
	}
	if values, near := Attestable("firmware.patrolscrub"); values != nil || len(near) == 0 ||
		near[0] != "firmware.patrol_scrub" {
		t.Errorf("near firmware.patrolscrub: %v", near)
	}
}

// TestLintIsBounded: no more words are looked up than a kernel takes.
func TestLintIsBounded(t *testing.T) {
	line := make(setting.CommandLine, 4*mostWords)
	for i := range line {
		line[i] = "unheard" + strconv.Itoa(i)
	}
	if odd, passed := lint(line, nil); len(odd)+len(passed) != mostWords {
		t.Errorf("%d and %d words", len(odd), len(passed))
	}
}
