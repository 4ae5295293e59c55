package traffic

import (
	"math"
	"slices"
)

// imix is the order of CSIT's IMIX: 28 frames of 64 bytes, 16 of 570 and 4 of 1518, spread as evenly as they go. That
// is 7, 4 and 1 of 12. (FD.io CSIT, methodology, "Packet sizes": IMIX_v4_1.)
var imix = [12]int{64, 570, 64, 64, 570, 1518, 64, 570, 64, 64, 570, 64}

// IMIX is the order of frame sizes of CSIT's mix, for Frame.Sizes.
func IMIX() []int { return slices.Clone(imix[:]) }

// Bounds of Frame.Sizes, as in bpf/gen.bpf.c.
const (
	maxOrder = 64
	maxSizes = 8
)

// A mix walks through the sizes of a frame's order. Each time that order and flows come out even it goes one further,
// so that every flow gets frames of every size. All is in step with bpf/gen.bpf.c.
type mix struct {
	order []int   // per position the index into kinds
	kinds []Frame // the frame in each of its sizes
	every uint32  // frames after which it goes one further; 0: never
	at    int     // position in the order
	since uint32
}

func (f Frame) mix() mix {
	f = f.withDefaults()
	if len(f.Sizes) == 0 {
		return mix{order: []int{0}, kinds: []Frame{f}}
	}
	m := mix{}
	index := map[int]int{}
	for _, size := range f.Sizes {
		i, have := index[size]
		if !have {
			i = len(m.kinds)
			index[size] = i
			kind := f
			kind.Size, kind.Sizes = size, nil
			m.kinds = append(m.kinds, kind)
		}
		m.order = append(m.order, i)
	}
	if even := lcm(uint64(len(m.order)), f.Flows()); even <= math.MaxUint32 {
		m.every = uint32(even)
	}
	return m
}

// next is the kind of the next frame.
func (m *mix) next() int {
	kind := m.order[m.at]
	m.at++
	if m.since++; m.since == m.every {
		m.since = 0
		m.at++
	}
	if m.at >= len(m.order) {
		m.at -= len(m.order)
	}
	return kind
}

// bytes are those of the first n frames, with FCS.
func (f Frame) bytes(n uint64) uint64 {
	m := f.mix()
	var cycle uint64
	for _, kind := range m.order {
		cycle += uint64(m.kinds[kind].Size)
	}
	// Whole rounds hold every size as often as the order has it, wherever they begin.
	length := uint64(len(m.order))
	total := n / length * cycle
	if m.every > 0 {
		m.at = int(n / uint64(m.every) % length)
	}
	for range n % length {
		total += uint64(m.kinds[m.next()].Size)
	}
	return total
}

// MeanSize is the mean over the order of sizes, in bytes with FCS.
func (f Frame) MeanSize() float64 {
	f = f.withDefaults()
	n := max(1, len(f.Sizes))
	return float64(f.bytes(uint64(n))) / float64(n)
}

func lcm(a, b uint64) uint64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	if b > math.MaxUint64/(a/x) {
		return math.MaxUint64
	}
	return a / x * b
}
