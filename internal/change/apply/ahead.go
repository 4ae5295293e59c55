package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// ahead caches values that were read together (setting.BatchReader): the values of one object that the engine expects
// or has read before. The cache is valid for a moment, and only until something is written.
type ahead struct {
	lock   sync.Mutex
	wanted map[string][]setting.Address // by kind and object
	found  map[setting.Address]setting.Reading
	at     time.Time
}

// aheadCounts is how long the cache is valid.
const aheadCounts = 2 * time.Second

func objectOf(a setting.Address) string { return string(a.Kind) + ":" + a.Object() }

// expect announces addresses that will be read.
func (h *ahead) expect(all []setting.Address) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, a := range all {
		h.remember(a)
	}
}

// addressesOf are the addresses of changes.
func addressesOf(changes []journal.Change) []setting.Address {
	all := make([]setting.Address, len(changes))
	for i, c := range changes {
		all[i] = c.Address
	}
	return all
}

func (h *ahead) remember(a setting.Address) {
	if h.wanted == nil {
		h.wanted = map[string][]setting.Address{}
	}
	if of := objectOf(a); !slices.Contains(h.wanted[of], a) {
		h.wanted[of] = append(h.wanted[of], a)
	}
}

// forget drops the cache: the values may have changed.
func (h *ahead) forget() {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.found = nil
}

// read reads one address and, if its object is not cached, all expected addresses of that object.
func (h *ahead) read(ctx context.Context, mechanism setting.BatchReader, a setting.Address,
	limit time.Duration) setting.Reading {
	h.lock.Lock()
	h.remember(a)
	if found, known := h.found[a]; known && time.Since(h.at) < aheadCounts {
		h.lock.Unlock()
		return found
	}
	all := slices.Clone(h.wanted[objectOf(a)])
	h.lock.Unlock()

	late := fmt.Errorf("reading it did not return within %v", limit)
	ctx, cancel := setting.WithPatience(context.WithoutCancel(ctx), limit, late)
	defer cancel()
	answer := make(chan []setting.Reading, 1)
	go func() { answer <- mechanism.ReadAll(ctx, all) }()
	select {
	case found := <-answer:
		h.lock.Lock()
		defer h.lock.Unlock()
		h.found, h.at = map[setting.Address]setting.Reading{}, time.Now()
		for i, r := range found {
			h.found[all[i]] = r
		}
		return h.found[a]
	case <-ctx.Done():
		return setting.CouldNotTell(late.Error())
	}
}
