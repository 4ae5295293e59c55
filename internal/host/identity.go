package host

// Identity is the host's name and the ID of this boot of its kernel (random: Documentation/admin-guide/sysctl/kernel.rst,
// boot_id); empty where the machine does not tell.
func (m *Machine) Identity() (name, boot string) {
	return m.line("proc/sys/kernel/hostname"), m.line("proc/sys/kernel/random/boot_id")
}
