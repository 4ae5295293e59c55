package ovs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// module exists while the kernel's datapath is loaded. The families are asked for only then: looking one up by its name
// loads the module (net/openvswitch/datapath.c, MODULE_ALIAS_GENL_FAMILY).
const module = "sys/module/openvswitch"

// Commands and attributes of include/uapi/linux/openvswitch.h.
const (
	headerSize = 4 // struct ovs_header: the datapath's index

	datapathVersion, datapathGet = 2, 3
	datapathName                 = 1
	datapathStats                = 3
	datapathMegaflows            = 4
	datapathFeatures             = 5

	perCPUUpcalls = 1 << 3 // OVS_DP_F_DISPATCH_UPCALL_PER_CPU

	vportVersion, vportGet = 1, 3
	vportName              = 3
	vportUpcalls           = 10 // since Linux 6.3 (commit 1933ea365aa7)
	upcallsDone            = 0
	upcallsLost            = 1
)

// mostPorts bounds the ports of a datapath whose upcalls are read; mostUpcalls those that are kept.
const (
	mostPorts   = 16384
	mostUpcalls = 64
)

// Datapaths returns the kernel's datapaths of this network namespace, by index; none if its module is not loaded.
func Datapaths(m *tree.Tree) ([]facts.KernelDatapath, error) {
	if !m.Live() || !m.Exists(module) {
		return nil, nil
	}
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	messages, err := dumpFamily(conn, "ovs_datapath", datapathGet, datapathVersion, 0)
	if err != nil {
		return nil, fmt.Errorf("datapaths of Open vSwitch: %w", err)
	}
	all := []facts.KernelDatapath{}
	for _, message := range messages {
		if d, err := parseDatapath(message.Data); err == nil {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b facts.KernelDatapath) int { return a.Index - b.Index })
	return all, nil
}

// Counters returns what the datapaths of this network namespace counted, all together, by the names of reach.Counter;
// none if there is no datapath.
func Counters(m *tree.Tree) map[string]uint64 {
	all, _ := Datapaths(m) // what cannot be read is missing, as with files of /proc/net
	return sum(all)
}

// sum adds up what datapaths counted; nil if there is none.
func sum(all []facts.KernelDatapath) map[string]uint64 {
	if len(all) == 0 {
		return nil
	}
	counters := map[string]uint64{}
	for _, d := range all {
		counters["hit"] += d.Hit
		counters["missed"] += d.Missed
		counters["lost"] += d.Lost
		counters["mask_hit"] += d.MaskHit
		counters["cache_hit"] += d.CacheHit
		counters["flows.entries"] += d.Flows
		counters["masks.entries"] += d.Masks
	}
	return counters
}

// dumpFamily dumps the objects of a family, of one datapath or of all (0).
func dumpFamily(conn *genetlink.Conn, name string, command, version uint8, datapath int) ([]genetlink.Message, error) {
	family, err := conn.GetFamily(name)
	if err != nil {
		return nil, err
	}
	header := make([]byte, headerSize)
	binary.NativeEndian.PutUint32(header, uint32(datapath))
	return conn.Execute(genetlink.Message{Header: genetlink.Header{Command: command, Version: version}, Data: header},
		family.ID, netlink.Request|netlink.Dump)
}

// parseDatapath reads a message about a datapath (net/openvswitch/datapath.c, ovs_dp_cmd_fill_info).
func parseDatapath(data []byte) (d facts.KernelDatapath, err error) {
	if len(data) < headerSize {
		return d, fmt.Errorf("expected %d bytes of header, found %d", headerSize, len(data))
	}
	d.Index = int(binary.NativeEndian.Uint32(data))
	ad, err := netlink.NewAttributeDecoder(data[headerSize:])
	if err != nil {
		return d, err
	}
	for ad.Next() {
		switch b := ad.Bytes(); ad.Type() {
		case datapathName:
			d.Name = strings.TrimRight(string(b), "\x00")
		case datapathStats:
			words(b, &d.Hit, &d.Missed, &d.Lost, &d.Flows)
		case datapathMegaflows:
			var masks uint64
			words(b, &d.MaskHit, &masks, &d.CacheHit)
			if len(b) >= 16 {
				d.Masks = uint64(binary.NativeEndian.Uint32(b[8:]))
			}
		case datapathFeatures:
			d.PerCPU = len(b) >= 4 && binary.NativeEndian.Uint32(b)&perCPUUpcalls != 0
		}
	}
	return d, ad.Err()
}

// words reads 64-bit numbers, as far as there are some.
func words(b []byte, to ...*uint64) {
	for i, n := range to {
		if len(b) >= 8*i+8 {
			*n = binary.NativeEndian.Uint64(b[8*i:])
		}
	}
}

// addPorts counts a datapath's ports and adds those whose upcalls failed.
func addPorts(m *tree.Tree, d *facts.KernelDatapath) error {
	if !m.Live() {
		return nil
	}
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	messages, err := dumpFamily(conn, "ovs_vport", vportGet, vportVersion, d.Index)
	if err != nil {
		return fmt.Errorf("ports of %s: %w", d.Name, err)
	}
	d.Ports = len(messages)
	for _, message := range messages[:min(len(messages), mostPorts)] {
		if u := parsePort(message.Data); u.Lost > 0 {
			d.Upcalls = append(d.Upcalls, u)
		}
	}
	slices.SortFunc(d.Upcalls, func(a, b facts.OVSUpcalls) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), strings.Compare(a.Port, b.Port))
	})
	d.Upcalls = d.Upcalls[:min(len(d.Upcalls), mostUpcalls)]
	return nil
}

// parsePort reads a message about a port (net/openvswitch/vport.c, ovs_vport_get_upcall_stats).
func parsePort(data []byte) (u facts.OVSUpcalls) {
	if len(data) < headerSize {
		return u
	}
	ad, err := netlink.NewAttributeDecoder(data[headerSize:])
	if err != nil {
		return u
	}
	for ad.Next() {
		switch ad.Type() {
		case vportName:
			u.Port = ad.String()
		case vportUpcalls:
			ad.Nested(func(in *netlink.AttributeDecoder) error {
				for in.Next() {
					switch b := in.Bytes(); in.Type() {
					case upcallsDone:
						words(b, &u.Done)
					case upcallsLost:
						words(b, &u.Lost)
					}
				}
				return nil
			})
		}
	}
	return u
}
