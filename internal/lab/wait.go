package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// waitFor waits until a process of the lab has created a file. The error has the end of the process's log.
func (l *Lab) waitFor(ctx context.Context, p Proc, path string) error {
	for {
		alive := p.Alive() // before the file: it may have created it and ended
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		err := errEnded
		if alive {
			err = sleep(ctx, 5*time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("%s: no %s: %w: %s", p.Role, filepath.Base(path), err,
				logTail(filepath.Join(l.dir, p.Role+".log"), 3))
		}
	}
}

// errEnded: a process that the lab needs has ended.
var errEnded = errors.New("it has ended")

// sleep waits for d, or returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func mkfifo(path string) error {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("mkfifo %s: %w", path, err)
	}
	return nil
}

// hardware loads the modules of a KVM host: NICs, guests' back ends, VFs.
const hardware = `set -e
modprobe -a igb virtio_net tun bridge veth vhost_net vfio-pci &
if grep -q -w svm /proc/cpuinfo; then modprobe kvm_amd; elif grep -q -w vmx /proc/cpuinfo; then modprobe kvm_intel; fi
wait $!
for i in $(seq 100); do
	found=$(cat /sys/class/net/*/address)
	ok=1
	for m in ` + MACigb0 + ` ` + MACigb1 + ` ` + MACvirtio + `; do
		case $found in *$m*) ;; *) ok= ;; esac
	done
	[ -z "$ok" ] || exit 0
	sleep 0.05
done
echo "NICs did not appear: $found" >&2
exit 1
`

func (l *Lab) loadModules(ctx context.Context) error {
	if _, err := l.Must(ctx, hardware); err != nil {
		return fmt.Errorf("load modules of the lab host: %w", err)
	}
	return nil
}

// termRE matches values of TERM that are safe in a shell.
var termRE = regexp.MustCompile(`^[A-Za-z0-9+._-]+$`)

// drain gives the copy of a shell's last output a moment, then ends it.
func drain(f *os.File, copied <-chan struct{}) {
	_ = f.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-copied
}
