package wakeup

import "mpps/internal/model/facts"

// words are the names of the kinds, for people.
var words = map[facts.Disturbance]string{
	facts.SMI: "system management interrupts", facts.Steal: "stolen time", facts.MachineCheck: "machine checks",
	facts.Throttle:    "throttling",
	facts.OtherThread: "another thread ran:", facts.Migration: "the thread was moved:",
	facts.PageFault: "page faults of", facts.Interrupt: "interrupt",
	facts.IPI: "interrupt from another CPU:", facts.NMI: "NMI", facts.SoftIRQ: "softirq",
	facts.Memory: "memory management:", facts.IdleEntry: "idle state",
	facts.Frequency: "changes of the clock", facts.RunDelay: "waiting for the CPU:",
	facts.ContextSwitch: "context switches", facts.VMExit: "exits of the guest:",
}

// advice is what to do about each kind.
var advice = map[facts.Disturbance]string{
	facts.SMI: "firmware settings: 'mpps explain firmware.legacy_usb', 'mpps explain " +
		"firmware.patrol_scrub'; the vendor's realtime profile",
	facts.Steal:        "this host is a guest itself: ask below for CPUs of its own",
	facts.MachineCheck: "look for corrected errors in the kernel log (memory, PCIe); 'mpps explain boot.mce'",
	facts.Throttle:     "look after cooling and power limits",
	facts.OtherThread:  "keep it off the CPU: 'mpps explain boot.isolcpus'; 'mpps plan --latency 20us'",
	facts.Migration:    "pin the thread to one CPU: 'mpps explain domain.vcpupin'",
	facts.PageFault:    "give the guest huge pages that are locked: 'mpps explain domain.hugepages'",
	facts.Interrupt:    "move it to another CPU: 'mpps explain rt.irq_affinity'",
	facts.IPI:          "other CPUs call this one: 'mpps explain boot.nohz_full', 'mpps explain rt.workqueue'",
	facts.NMI:          "switch the NMI watchdog off: 'mpps explain rt.watchdog'; end 'perf'",
	facts.SoftIRQ: "work behind interrupts and timers: 'mpps explain boot.rcu_nocbs', 'mpps explain " +
		"rt.irq_affinity'",
	facts.Memory:        "'mpps explain memory.thp', 'mpps explain memory.numa_balancing', 'mpps explain rt.ksm'",
	facts.IdleEntry:     "keep the CPU out of it: 'mpps explain cpu.latency', 'mpps explain boot.cstate'",
	facts.Frequency:     "hold the clock: 'mpps explain cpu.governor'",
	facts.RunDelay:      "something else had the CPU: isolation, 'mpps plan --latency 20us'",
	facts.ContextSwitch: "something else had the CPU: isolation, 'mpps plan --latency 20us'",
	facts.VMExit:        "look at what the guest does: timers, emulated devices, interrupts",
}

// Advice returns what to do about a kind, empty for an unknown one.
func Advice(kind facts.Disturbance) string { return advice[kind] }
