package guestinit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The guest agent, if the initramfs has it, and its virtio-serial port.
const (
	agentProgram = "/bin/qemu-ga"
	agentPort    = "org.qemu.guest_agent.0"
)

// runAgent keeps the agent running until ctx ends. Without the program or the port it does nothing.
func runAgent(ctx context.Context) {
	port := portNamed("/", agentPort)
	if _, err := os.Stat(agentProgram); err != nil || port == "" {
		return
	}
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, agentProgram, "-m", "virtio-serial", "-p", "/dev/"+port, "-t", "/run")
		if err := cmd.Run(); ctx.Err() == nil {
			fmt.Println("guest: the agent has ended:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// portNamed returns the device of a named virtio port, such as vport1p1; empty if there is none.
func portNamed(root, name string) string {
	files, err := filepath.Glob(filepath.Join(root, "sys/class/virtio-ports/*/name"))
	if err != nil {
		return ""
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			return filepath.Base(filepath.Dir(file))
		}
	}
	return ""
}
