package probe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
)

// programs are the loaded eBPF programs.
type programs struct {
	coll    *ebpf.Collection
	reasons map[uint32]string // the kernel's names of drop reasons
	turn    uint32
}

// errNoBTF is the error for kernels without BTF, which is needed to find the fields of structures.
var errNoBTF = errors.New("this kernel does not describe its structures (BTF, CONFIG_DEBUG_INFO_BTF)")

// load loads the programs. Tracing programs on tracepoints came with Linux 5.5.
func load(noBTF error) (*programs, error) {
	kernel, err := btf.LoadKernelSpec()
	if err = cmp.Or(noBTF, err); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBTF, err)
	}
	spec, err := loadProbe()
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	p := &programs{reasons: reasonsOf(kernel)}
	for _, name := range []string{probeProgRefused, probeProgRefusedXmit} { // tracepoints come and go
		var tracepoint *btf.Typedef
		if kernel.TypeByName("btf_trace_"+spec.Programs[name].AttachTo, &tracepoint) != nil {
			delete(spec.Programs, name)
		}
	}
	if hasReason(kernel) {
		if err := spec.Variables[probeVarReasons].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("configure the probe: %w", err)
		}
	}
	// Kernels before 5.11 count a program's memory against this limit.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	if p.coll, err = ebpf.NewCollection(spec); err != nil {
		if os.Geteuid() != 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) {
			return nil, errors.New("needs root (eBPF programs on tracepoints)")
		}
		return nil, fmt.Errorf("load the probe, which needs Linux 5.5 or later: %w", err)
	}
	return p, nil
}

// hasReason reports whether the tracepoint has a reason besides the location (Linux 5.17).
func hasReason(kernel *btf.Spec) bool {
	var tracepoint *btf.Typedef
	if kernel.TypeByName("btf_trace_kfree_skb", &tracepoint) != nil {
		return false
	}
	pointer, is := tracepoint.Type.(*btf.Pointer)
	if !is {
		return false
	}
	proto, is := pointer.Target.(*btf.FuncProto)
	return is && len(proto.Params) >= 4 // the first is the tracepoint's private data
}

// refused stands for packets that an XDP program redirected in vain (REFUSED in bpf/probe.bpf.c).
const refused = math.MaxUint32

// reasonsOf returns the kernel's names of drop reasons. Their numbers differ between kernels
// (include/net/dropreason-core.h).
func reasonsOf(kernel *btf.Spec) map[uint32]string {
	names := map[uint32]string{refused: "XDP"}
	for enum, prefix := range map[string]string{"skb_drop_reason": "SKB_DROP_REASON_", "ovs_drop_reason": "OVS_DROP_"} {
		var e *btf.Enum
		if kernel.TypeByName(enum, &e) != nil {
			continue
		}
		for _, v := range e.Values {
			if name, is := strings.CutPrefix(v.Name, prefix); is {
				names[uint32(v.Value)] = name
			}
		}
	}
	return names
}

// reason returns the name of a drop reason, or its number if the kernel has no name for it. Kernels without reasons use
// 0, NOT_SPECIFIED.
func (p *programs) reason(n uint32) string {
	if name, known := p.reasons[n]; known {
		return name
	}
	if n == 0 {
		return "NOT_SPECIFIED"
	}
	return fmt.Sprintf("REASON_%d", n)
}

// known returns the names of programs that this kernel has tracepoints for.
func (p *programs) known(names ...string) []string {
	return facts.Where(names, func(name string) bool { return p.coll.Programs[name] != nil })
}

// attach attaches programs by name.
func (p *programs) attach(names ...string) ([]link.Link, error) {
	var all []link.Link
	for _, name := range names {
		l, err := link.AttachTracing(link.TracingOptions{Program: p.coll.Programs[name]})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach the probe %s: %w", name, err), closeAll(all))
		}
		all = append(all, l)
	}
	return all, nil
}

// begin starts a new turn: the programs then ignore waits that began in an earlier one.
func (p *programs) begin() error {
	p.turn++
	if err := p.coll.Variables[probeVarCounting].Set(p.turn); err != nil {
		return fmt.Errorf("switch the probe: %w", err)
	}
	return nil
}

// thin makes the program count one drop in of, a power of two, as that many.
func (p *programs) thin(of uint32) error {
	if err := p.coll.Variables[probeVarSparse].Set(of - 1); err != nil {
		return fmt.Errorf("switch the probe: %w", err)
	}
	return nil
}

// runs returns how often the programs ran since they were loaded, by CPU.
func (p *programs) runs() ([]probeRan, error) {
	var all []probeRan
	if err := p.coll.Maps[probeMapRuns].Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("read the probe's counters: %w", err)
	}
	return all, nil
}

func closeAll(links []link.Link) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
