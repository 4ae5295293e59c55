package ethtool

import (
	"slices"

	"mpps/internal/model/facts"
)

// Words of struct ethtool_rxfh (include/uapi/linux/ethtool.h): command, context, size of the table, size of the key,
// hash function and transformation, reserved; then the table, a word each.
const (
	getRSS         = 0x46 // ETHTOOL_GRSSH
	tableWord      = 2
	keyWord        = 3
	transformWord  = 4
	rssHeaderWords = 6
	maxTable       = 1 << 16 // entries; no driver has as many
)

// rss returns the table by which a NIC chooses receive queues. It reads the size first, then the table and the key,
// which some drivers give only together. Most devices without a table refuse, each in another way: there is none then.
func (e *Conn) rss(device string) *facts.RSS {
	words := make([]uint32, rssHeaderWords)
	words[0] = getRSS
	if e.ioctl(device, words) != nil {
		return nil
	}
	table, key := words[tableWord], words[keyWord]
	if table == 0 || table > maxTable || key > maxTable {
		return nil
	}
	words = make([]uint32, rssHeaderWords+table+(key+3)/4)
	words[0], words[tableWord], words[keyWord] = getRSS, table, key
	if e.ioctl(device, words) != nil {
		return nil
	}
	return parseRSS(words, int(table))
}

// parseRSS returns the table of an answer. The transformation is the second byte of its word (input_xfrm, since 6.8).
func parseRSS(words []uint32, table int) *facts.RSS {
	r := &facts.RSS{Entries: table, Symmetric: words[transformWord]>>8&0xff != 0}
	for _, queue := range words[rssHeaderWords : rssHeaderWords+table] {
		if !slices.Contains(r.Queues, int(queue)) {
			r.Queues = append(r.Queues, int(queue))
		}
	}
	slices.Sort(r.Queues)
	return r
}
