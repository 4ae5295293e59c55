package traffic

// A tracker is the sequence check of bpf/sink.bpf.c in Go, for packet sockets. It remembers which sequence numbers have
// arrived in a ring of words, each 32 bits of epoch above 32 bits of arrivals.
type tracker struct {
	received, bytes, duplicated, reordered, tooLate, first, next uint64
	span
	words [trackerWords]uint64
}

const (
	trackerWords  = 1024
	trackerWindow = trackerWords*32 - 32
)

// record counts a frame.
func (t *tracker) record(seq uint64, bytes int) {
	slot, epoch, arrived := seq/32%trackerWords, seq/(32*trackerWords), uint64(1)<<(seq%32)
	word := t.words[slot]
	if word>>32 != epoch&0xffffffff {
		word = epoch << 32
	}
	switch {
	case seq >= t.next:
		if t.received == 0 {
			t.first = seq
		}
		t.next = seq + 1
		t.words[slot] = word | arrived
	case t.next-seq > trackerWindow:
		t.tooLate++
	case word&arrived != 0:
		t.duplicated++
	default:
		t.reordered++
		t.words[slot] = word | arrived
	}
	t.received++
	t.bytes += uint64(bytes)
}

// arrive notes the arrival time of a frame, before it is recorded.
func (t *tracker) arrive(ns uint64) {
	if t.received == 0 {
		t.FirstAt = ns
		return
	}
	t.LastAt, t.Spanned = ns, t.received
}

// counts returns the counts as a sink on one CPU would.
func (t *tracker) counts(stream uint16) StreamCounts {
	s := StreamCounts{
		Stream: stream, Received: t.received, Bytes: t.bytes, Duplicated: t.duplicated,
		Reordered: t.reordered + t.tooLate, TooLate: t.tooLate, First: t.first, Next: t.next,
		span: t.span,
	}
	if t.received > 0 {
		s.CPUs = 1
	}
	return s
}
