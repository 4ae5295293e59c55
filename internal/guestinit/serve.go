package guestinit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mpps/internal/measure/traffic/agent"
	"mpps/internal/measure/traffic/engine"
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
	if port := portNamed("/", agentPort); port != "" && installed(agentProgram) {
		keep(ctx, agentProgram, "-m", "virtio-serial", "-p", "/dev/"+port, "-t", "/run")
	}
}

// serverPatience is how long servers may take to listen; after it the guest is measured without.
const serverPatience = 10 * time.Second

// runServers keeps the servers of the traffic programs running that the initramfs has, until ctx ends. It returns once
// they listen.
func runServers(ctx context.Context) {
	limit := time.Now().Add(serverPatience)
	for _, name := range engine.Names {
		argv := name.ServerArgv()
		program := "/bin/" + argv[0]
		if !installed(program) {
			continue
		}
		go keep(ctx, program, argv[1:]...)
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(name.Port())))
		for ctx.Err() == nil {
			c, err := net.Dial("tcp", at)
			if err == nil {
				say(c.Close())
				break
			}
			if time.Now().After(limit) {
				say(fmt.Errorf("the server of %s: %w", name, err))
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// installed reports whether the initramfs has a program.
func installed(program string) bool {
	_, err := os.Stat(program)
	return err == nil
}

// keep runs a program until ctx ends, and again whenever it ends.
func keep(ctx context.Context, program string, argv ...string) {
	for ctx.Err() == nil {
		if err := exec.CommandContext(ctx, program, argv...).Run(); ctx.Err() == nil {
			fmt.Printf("guest: %s has ended: %v\n", program, err)
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
