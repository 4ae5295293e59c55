package guestinit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

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
