package lab

import "mpps/internal/initramfs"

// agentPrograms are the programs of the tree in /bin of a guest with an agent: the agent, and what it is asked to run.
var agentPrograms = []string{"usr/sbin/qemu-ga", "usr/bin/busybox", "usr/sbin/ethtool", "usr/bin/cyclictest"}

// applets are the links to busybox in such a guest.
var applets = []string{"cat", "chmod", "cp", "dd", "find", "grep", "kill", "ls", "mkdir", "mkswap", "mv", "pidof", "ps",
	"readlink", "rm", "rmdir", "sh", "sleep", "swapoff", "swapon", "sync", "tar", "tee", "true"}

// addAgent adds the programs, their libraries and the busybox links: about 11 MB, read for each guest, which takes some
// ten milliseconds.
func addAgent(c *initramfs.Writer, tree string) error {
	for _, d := range []string{"var", "var/run", "var/lib"} {
		if err := c.Dir(d); err != nil {
			return err
		}
	}
	if err := c.Programs(tree, agentPrograms); err != nil {
		return err
	}
	for _, name := range applets {
		if err := c.Link("bin/"+name, "busybox"); err != nil {
			return err
		}
	}
	return nil
}
