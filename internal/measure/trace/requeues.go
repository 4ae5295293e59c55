package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Layout of a message about a qdisc (include/uapi/linux/rtnetlink.h, struct tcmsg; gen_stats.h, struct
// gnet_stats_queue).
const (
	sizeofTcmsg    = 20
	tcmsgIndex     = 4
	tcmsgParent    = 12
	tcaStats2      = 7
	tcaStatsQueue  = 3
	requeuesOffset = 12
	parentRoot     = 0xffffffff
)

// requeues returns how often the root qdisc of each device requeued a packet since it was set up, by index. A qdisc
// with others below it includes theirs (net/sched/sch_mq.c, mq_dump).
func requeues() (map[int]uint32, error) {
	messages, err := dump(unix.RTM_GETQDISC, make([]byte, sizeofTcmsg))
	if err != nil {
		return nil, fmt.Errorf("queue disciplines: %w", err)
	}
	counts := map[int]uint32{}
	for _, m := range messages {
		if len(m.Data) < sizeofTcmsg || binary.NativeEndian.Uint32(m.Data[tcmsgParent:]) != parentRoot {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[sizeofTcmsg:])
		if err != nil {
			return nil, fmt.Errorf("queue disciplines: %w", err)
		}
		index := int(binary.NativeEndian.Uint32(m.Data[tcmsgIndex:]))
		for ad.Next() {
			if ad.Type() != tcaStats2 {
				continue
			}
			ad.Nested(func(stats *netlink.AttributeDecoder) error {
				for stats.Next() {
					if b := stats.Bytes(); stats.Type() == tcaStatsQueue && len(b) >= requeuesOffset+4 {
						counts[index] = binary.NativeEndian.Uint32(b[requeuesOffset:])
					}
				}
				return nil
			})
		}
		if err := ad.Err(); err != nil {
			return nil, fmt.Errorf("queue disciplines: %w", err)
		}
	}
	return counts, nil
}
