package traffic

import (
	"math"
	"slices"
)

// imix is the order of CSIT's IMIX: 28 frames of 64 bytes, 16 of 570 and 4 of 1518, that is 7, 4 and 1 of 12, spread as
// evenly as possible. (FD.io CSIT, methodology, "Packet sizes": IMIX_v4_1.)
var imix = [12]int{64, 570, 64, 64, 570, 1518, 64, 570, 64, 64, 570, 64}

// IMIX returns the frame sizes of CSIT's mix in order, for Frame.Sizes.
func IMIX() []int { return slices.Clone(imix[:]) }

// Bounds of Frame.Sizes, as in bpf/gen.bpf.c.
const (
	maxOrder = 64
	maxSizes = 8
)

// A mix cycles through the sizes of a frame. Whenever the cycles of sizes and flows end together it skips one size, so
// that every flow gets frames of every size. It stays in step with bpf/gen.bpf.c.
type mix struct {
	order []int   // per position the index into kinds
	kinds []Frame // the frame in each of its sizes
	every uint32  // frames after which it skips one size; 0: never
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

// next returns the kind of the next frame.
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

// bytes returns the size of the first n frames together, with FCS.
func (f Frame) bytes(n uint64) uint64 {
	m := f.mix()
	var cycle uint64
	for _, kind := range m.order {
		cycle += uint64(m.kinds[kind].Size)
	}
	// A whole cycle has every size as often as the order, wherever it begins.
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

// MeanSize returns the mean of the sizes, in bytes with FCS.
func (f Frame) MeanSize() float64 {
	f = f.withDefaults()
	n := max(1, len(f.Sizes))
	return float64(f.bytes(uint64(n))) / float64(n)
}

// lcm returns the least common multiple, math.MaxUint64 if it is larger.
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
