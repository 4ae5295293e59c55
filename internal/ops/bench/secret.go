package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"

	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Sizes of a secret in bytes. One of 16 random bytes cannot be guessed.
const (
	minSecret = 16
	maxSecret = 64 << 10
)

// Secret returns the content of a secret file without surrounding white space; nil if file is empty. It refuses a file
// that anybody but its owner can read or write, and one that belongs to neither root nor this user.
func Secret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	f, err := ops.OpenFile(file)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("secret %w", err), "the same file is needed on both sides")
	}
	defer f.Close()
	if err := checkSecretFile(f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("secret: %w", err), "")
	}
	secret := bytes.TrimSpace(text)
	if len(secret) < minSecret || len(text) > maxSecret {
		return nil, outcome.Usage(fmt.Errorf("secret file %s: %d bytes, expected %d to %d", file, len(secret),
			minSecret, maxSecret), "'(umask 077; head -c 32 /dev/urandom | base64 >FILE)' makes one")
	}
	return secret, nil
}

func checkSecretFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return outcome.Failed(fmt.Errorf("secret: %w", err), "")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return outcome.Usage(fmt.Errorf("secret file %s: mode %04o lets others read or write it", f.Name(), mode),
			"chmod 600 "+f.Name()+"; anyone who has read it by now knows it")
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return outcome.Usage(fmt.Errorf("secret file %s: it belongs to user %d, expected root or %d", f.Name(),
			stat.Uid, os.Geteuid()), "give a file of your own")
	}
	return nil
}
