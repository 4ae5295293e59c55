package traffic

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Answer is what a probe found.
type Answer string

const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown" // could not tell, for example without privileges
)

// UnsupportedError says that kernel or device cannot do something, or that it
// could not be found out (Answer Unknown).
type UnsupportedError struct {
	What   string
	Answer Answer
	Err    error
}

func (e *UnsupportedError) Error() string {
	if e.Answer == Unknown {
		return fmt.Sprintf("could not tell whether %s is possible: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%s is not possible: %v", e.What, e.Err)
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// Support is the answer to Probe.
type Support struct {
	Answer Answer
	Err    error // the reason for No and Unknown
	// EndsRuns: the program can end a live run, so that one call may last as
	// long as the traffic.
	EndsRuns bool
}

// Probe finds out whether this kernel can send XDP live frames (5.18 and
// later). Nothing is sent.
func Probe() Support {
	spec, err := loadGen()
	if err != nil {
		return Support{Answer: Unknown, Err: fmt.Errorf("generator program: %w", err)}
	}
	return probeLive(spec)
}

// probeLive runs the generator with nothing to send: its first frame asks to
// end the run. A kernel without live frames refuses the flag with EINVAL.
func probeLive(spec *ebpf.CollectionSpec) Support {
	spec = spec.Copy()
	c := Config{Discard: true, CPUs: []int{0}}
	c.Frame = c.Frame.withDefaults()
	if err := spec.Variables[genVarCfg].Set(c.program(0)); err != nil {
		return Support{Answer: Unknown, Err: err}
	}
	coll, err := loadCollection(spec)
	if err != nil {
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS) {
			return Support{Answer: No, Err: err}
		}
		return Support{Answer: Unknown, Err: err}
	}
	defer coll.Close()
	const frames = 4096
	switch err := testRunLive(coll.Programs[genProgGenerate], make([]byte, MinFrame-fcsBytes), frames, 64); {
	case err == nil:
		return Support{Answer: Yes}
	case errors.Is(err, errStopped):
		return Support{Answer: Yes, EndsRuns: true}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return Support{Answer: No, Err: fmt.Errorf("live frame test run: %w", err)}
	case errors.Is(err, unix.EINTR):
		return Support{Answer: Yes}
	case errors.Is(err, fs.ErrPermission):
		return Support{Answer: Unknown, Err: fmt.Errorf("live frame test run: %w", err)}
	default:
		return Support{Answer: Unknown, Err: fmt.Errorf("live frame test run: %w", err)}
	}
}
