package ethtool

import (
	"reflect"
	"testing"

	"mpps/internal/model/facts"
)

func TestParseRSS(t *testing.T) {
	words := []uint32{getRSS, 0, 4, 8, 1, 0, 3, 0, 3, 1, 0xaaaa, 0xbbbb}
	if r := parseRSS(words, 4); !reflect.DeepEqual(r, &facts.RSS{Entries: 4, Queues: []int{0, 1, 3}}) {
		t.Errorf("found %+v", r)
	}
	words[transformWord] = 1 | 1<<8 // Toeplitz, RXH_XFRM_SYM_XOR
	if r := parseRSS(words, 4); !r.Symmetric {
		t.Error("not symmetric")
	}
}
