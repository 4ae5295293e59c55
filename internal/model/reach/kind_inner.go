package reach

// Inner: a network that nothing leads out of: guests among themselves, or the host.
const Inner Kind = "inner"

var inner = &Hops{
	Kind: Inner, Words: "a network without a way out", Judged: true, Kernel: true,
	What:       "a network that nothing leads out of",
	Interfaces: []string{"internal", "null"},
	Needs:      []string{"bridges", "taps", "routing"},
}
