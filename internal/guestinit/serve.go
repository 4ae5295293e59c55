package guestinit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mpps/internal/measure/traffic/agent"
	"mpps/internal/version"
)

// SecretFile has the agent's secret, in an initramfs that other users of the host cannot read. A kernel command line is
// readable to all of them, as an argument of QEMU.
const SecretFile = "etc/secret"

// Serve runs the agent on every address, until ctx or the machine ends, which a client may ask for. Its secret is in
// SecretFile, or on the kernel command line (mpps.secret=TEXT).
func Serve(ctx context.Context) error {
	secret, err := os.ReadFile("/" + SecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = os.ReadFile("/proc/cmdline")
		secret = secretIn(string(secret))
	}
	if err != nil {
		return fmt.Errorf("the agent's secret: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := agent.Listen("", ":"+agent.Port, agent.Options{
		Version: version.Version, Secret: secret, Open: true,
		PowerOff: func() error {
			stop()
			return nil
		},
	})
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// secretIn returns the secret in a kernel command line, nil if there is none.
func secretIn(cmdline string) []byte {
	for word := range strings.FieldsSeq(cmdline) {
		if text, ok := strings.CutPrefix(word, "mpps.secret="); ok && text != "" {
			return []byte(text)
		}
	}
	return nil
}

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
