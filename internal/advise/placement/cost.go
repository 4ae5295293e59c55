package placement

// Cost is the cost of a placement, rule by rule. Total is the weighted sum, which the placement minimises.
//
// Distance and crowding are in points. The path of one queue's packets costs 2 points for each unit of distance between
// the NIC's node and the guest's, and 1 point for each unit between the guest's node and its vhost thread's. Two vhost
// threads on one core cost 8 points, three 24 (8 for each pair). One on a CPU kept for the host costs 40, and more
// where these would be crowded: above 100 with a dozen on each. One on the sibling of a vCPU costs 60, because it takes
// half of that vCPU's core, and one on a vCPU's own CPU 100. All are multiplied by the guest's rate relative to the
// lowest of all guests, at most 10.
type Cost struct {
	Refused int `json:"refused"`           // guests without a place
	Sharing int `json:"sharing"`           // vCPUs on a core that has another vCPU
	Spread  int `json:"spread"`            // nodes beyond the first, summed over all guests
	Exposed int `json:"exposed,omitempty"` // vCPUs off the isolated cores, if the host has any
	Away    int `json:"away,omitempty"`    // vCPUs off the nodes that their guest's memory is bound to
	Reserve int `json:"reserve"`           // cores that the host should keep but does not
	// cores that interrupts of busy NICs should have on their node but do not
	Interrupts int   `json:"interrupts,omitempty"`
	Pages      int   `json:"pages"`       // guests that should have huge pages but get ordinary ones
	Distance   int64 `json:"distance"`    // points
	Crowding   int64 `json:"crowding"`    // points, of vhost threads
	Balance    int64 `json:"balance"`     // 0: nothing is used; 1000: everything is; even use costs less
	Used       int   `json:"used_cores"`  // cores that have a vCPU or a vhost thread
	Spare      int   `json:"spare_cores"` // cores that have neither, for a guest of no special wishes
	// the most spare cores on one node: the vCPUs of the largest guest that would still fit
	Largest int   `json:"largest_free"`
	Total   int64 `json:"total"`
}

// The weights. Each is larger than the sum of those below it on a host of usual size.
const (
	costRefused   = 1e15 // a guest
	costRefusedBy = 1e12 // a vCPU of a refused guest: of two guests the smaller is refused
	costSharing   = 1e11 // a vCPU
	costSpread    = 1e10 // a node
	costExposed   = 1e9  // all vCPUs of a guest
	costAway      = 1e9  // all vCPUs of a guest
	costReserve   = 1e8  // a core
	costPages     = 1e8  // a guest
	costLeft      = 9e7  // a guest that shares CPUs and is left as it is
	costServing   = 1e7  // a core for interrupts
	costPoint     = 2000
	costBalance   = 1000 // everything used
	costUsed      = 1    // a core
)

// Points of one vhost thread; see Cost.
const (
	pointsNIC      = 2  // by unit of distance
	pointsVhost    = 1  // by unit of distance
	pointsPair     = 8  // two threads on one core
	pointsGiven    = 5  // on a core that the user gave to the guest's vCPUs
	pointsKept     = 40 // on a CPU kept for the host, if these are not crowded
	pointsSibling  = 60 // on the other thread of a vCPU's core
	pointsOwn      = 100
	maxWeight      = 10
	usualRate      = 100e3 // packets per second of a guest without a requested rate
	remoteDistance = 20    // between nodes whose distance is not known
)

// refusal returns the cost of refusing a guest.
func refusal(g *Guest) int64 { return costRefused + int64(min(g.VCPUs, 512))*costRefusedBy }

// pairs returns how many pairs of threads share a core if threads are spread evenly over cores.
func pairs(threads, cores int) int64 {
	if cores <= 0 {
		return 0
	}
	each, more := threads/cores, threads%cores
	return int64(cores*each*(each-1)/2 + more*each)
}

// balance returns a cell's part of the cost of balance. It is convex in the used cores.
func balance(used, size, all int) int64 {
	if size == 0 || all == 0 {
		return 0
	}
	return int64(costBalance) * int64(used) * int64(used) / (int64(size) * int64(all))
}
