package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// socketLook has the counters of one network namespace's sockets.
type socketLook struct {
	udpIn, udpOut, receive, send, noPort, listen uint64

	packet map[uint32]packetLook // by inode
	bare   bool                  // its namespace has no address
	queued float64               // fill level of the fullest receive queue, 0 to 1
	udp    map[uint32]udpLook    // by inode
	tcp    map[uint32]tcpLook    // by inode; nil: not read
	raw    map[uint32]udpLook    // by inode; their port is the protocol

	closed, established uint64 // windows of TCP closed so far; connections
	delivered, sent     uint64 // by IP to programs, and from them
}

// udpLook has the counters of one UDP or TCP socket.
type udpLook struct {
	port   int
	drops  uint32
	queued float64
}

// packetLook is one AF_PACKET socket.
type packetLook struct {
	drops  uint64
	all    bool // it takes every packet, or every one of IPv4
	device int  // index of the device that it is bound to; 0: all of them
}

// tcpLook is what a TCP socket tells (include/uapi/linux/tcp.h, struct tcp_info).
type tcpLook struct {
	udpLook
	buffer, window, unread uint32
	received               uint64
	rtt                    uint32 // µs: the shorter of those that it has of itself and of its peer
}

// shortest is the least receive buffer of TCP that grows by itself (net/ipv4/tcp.c, tcp_init: sysctl_tcp_rmem). One
// that a program has asked for stays as it is (SO_RCVBUF).
const shortest = 131072

// narrow reports whether the peer waited for room in a socket's buffer between two looks: what came in a round trip was
// a tenth of the window or more. One that its sender holds back has a thousandth.
func (t tcpLook) narrow(before tcpLook, seconds float64) bool {
	rate := float64(facts.Increase(before.received, t.received)) / seconds
	return t.buffer < shortest && t.window > 0 && rate*float64(t.rtt)/1e6 >= 0.1*float64(t.window)
}

// readSockets reads the socket counters of the calling thread's namespace.
func readSockets(t *tree.Tree) (socketLook, error) {
	var s socketLook
	var texts [2]string
	for i, file := range []string{"snmp", "netstat"} {
		text, err := t.Read("proc/thread-self/net/" + file)
		if err != nil {
			return s, err
		}
		texts[i] = text
	}
	six, err := t.Read("proc/thread-self/net/snmp6")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without IPv6
		return s, err
	}
	s.addCounters(texts[0], texts[1], six)
	s.raw = map[uint32]udpLook{}
	for _, file := range []string{"raw", "raw6"} {
		text, _ := t.Read("proc/thread-self/net/" + file) // without IPv6 there is none of them
		s.addRaw(text)
	}
	return s, s.diagnose()
}

// addRaw adds the sockets in /proc/net/raw (net/ipv4/raw.c, raw_sock_seq_show; net/ipv6/datagram.c).
func (s *socketLook) addRaw(text string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 13 {
			continue
		}
		_, protocol, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(protocol, 16, 16)
		inode, second := strconv.ParseUint(fields[9], 10, 32)
		drops, third := strconv.ParseUint(fields[12], 10, 32)
		if errors.Join(err, second, third) == nil {
			s.raw[uint32(inode)] = udpLook{port: int(port), drops: uint32(drops)}
		}
	}
}

// addCounters adds the socket counters in /proc/net/snmp, netstat and snmp6.
func (s *socketLook) addCounters(snmp, netstat, six string) {
	counters := link.ParseSNMP(snmp)
	s.udpIn, s.udpOut = counters["Udp.InDatagrams"], counters["Udp.OutDatagrams"]
	s.receive, s.send, s.noPort = counters["Udp.RcvbufErrors"], counters["Udp.SndbufErrors"], counters["Udp.NoPorts"]
	extended := link.ParseSNMP(netstat)
	s.listen, s.closed = extended["TcpExt.ListenDrops"], extended["TcpExt.TCPToZeroWindowAdv"]
	s.established = counters["Tcp.CurrEstab"]
	// InDelivers counts segments that GRO merged as one, InSegs each (net/ipv4/tcp_ipv4.c, tcp_v4_fill_cb)
	s.delivered, s.sent = counters["Ip.InDelivers"], counters["Ip.OutRequests"]
	s.delivered -= min(counters["Udp.IgnoredMulti"], s.delivered) // broadcasts that no program takes
	s.delivered = max(s.delivered, counters["Tcp.InSegs"]+counters["Udp.InDatagrams"])
	into := map[string]*uint64{
		"Udp6InDatagrams": &s.udpIn, "Udp6OutDatagrams": &s.udpOut, "Udp6RcvbufErrors": &s.receive,
		"Udp6SndbufErrors": &s.send, "Udp6NoPorts": &s.noPort,
		"Ip6InDelivers": &s.delivered, "Ip6OutRequests": &s.sent,
	}
	for line := range strings.Lines(six) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimSpace(name)
		fields := strings.Fields(value)
		if into[name] == nil || len(fields) != 1 {
			continue
		}
		if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
			*into[name] += n
		}
	}
}

// Requests (include/uapi/linux/inet_diag.h, packet_diag.h), and the members of the socket memory in the reply
// (include/uapi/linux/sock_diag.h, SK_MEMINFO_…).
const (
	sockDiagByFamily  = 20
	inetDiagInfo      = 2
	inetDiagSKMemInfo = 7
	packetShowInfo    = 1 << 0
	packetShowMemInfo = 1 << 4
	packetShowFilter  = 1 << 5
	packetDiagInfo    = 0
	packetDiagMemInfo = 6
	packetDiagFilter  = 7
	memReceive        = 0
	memReceiveBuffer  = 1
	memDrops          = 8
)

// diagnose reads the receive queues of UDP sockets and the drops of AF_PACKET sockets. Drops of sockets with a mapped
// ring are counted in the ring's statistics, which only their own process can read.
func (s *socketLook) diagnose() error {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return fmt.Errorf("sock_diag: %w", err)
	}
	defer conn.Close()
	s.udp = map[uint32]udpLook{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := askInet(conn, family, unix.IPPROTO_UDP, ^uint32(0), func(inode uint32, u tcpLook) { // in every state
			s.queued = max(s.queued, u.queued)
			s.udp[inode] = u.udpLook
		})
		if err != nil {
			return err
		}
	}
	s.packet = map[uint32]packetLook{}
	request := make([]byte, 20) // struct packet_diag_req
	request[0] = unix.AF_PACKET
	binary.NativeEndian.PutUint32(request[8:], packetShowInfo|packetShowMemInfo|packetShowFilter)
	all := false
	err = askDiag(conn, request, 16, func(message []byte, attributes map[uint16][]byte) {
		_, filter := attributes[packetDiagFilter]
		protocol := binary.NativeEndian.Uint16(message[2:])
		look := packetLook{drops: uint64(word(attributes[packetDiagMemInfo], memDrops)),
			device: int(word(attributes[packetDiagInfo], 0)), // pdi_index
			all:    !filter && (protocol == unix.ETH_P_ALL || protocol == unix.ETH_P_IP)}
		s.packet[binary.NativeEndian.Uint32(message[4:])] = look
		all = all || look.all
	})
	if err == nil && all {
		var addressed bool
		addressed, err = link.Addressed()
		s.bare = !addressed && err == nil
	}
	return err
}

// maxEstablished is how many connections a namespace may have for its TCP sockets to be read where windows were closed
// since an earlier look, maxCompared for them to be read at every look: a look must stay cheap.
const (
	maxEstablished = 10_000
	maxCompared    = 1000
)

// diagnoseTCP reads the established TCP sockets.
func (s *socketLook) diagnoseTCP() error {
	if s.established > maxEstablished {
		return fmt.Errorf("%d TCP connections: at most %d are looked at", s.established, maxEstablished)
	}
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return fmt.Errorf("sock_diag: %w", err)
	}
	defer conn.Close()
	s.tcp = map[uint32]tcpLook{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := askInet(conn, family, unix.IPPROTO_TCP, 1<<unix.BPF_TCP_ESTABLISHED, func(inode uint32, t tcpLook) {
			s.tcp[inode] = t
		}); err != nil {
			return err
		}
	}
	return nil
}

// askInet calls a function for each socket of a protocol in states that are bits of a mask, with its inode.
func askInet(conn *netlink.Conn, family, protocol byte, states uint32, each func(uint32, tcpLook)) error {
	request := make([]byte, 56) // struct inet_diag_req_v2
	request[0], request[1], request[2] = family, protocol, 1<<(inetDiagSKMemInfo-1)|1<<(inetDiagInfo-1)
	binary.NativeEndian.PutUint32(request[4:], states)
	return askDiag(conn, request, 72, func(message []byte, attributes map[uint16][]byte) {
		memory, info := attributes[inetDiagSKMemInfo], attributes[inetDiagInfo]
		t := tcpLook{udpLook: udpLook{port: int(binary.BigEndian.Uint16(message[4:])), drops: word(memory, memDrops)},
			buffer: word(memory, memReceiveBuffer), unread: binary.NativeEndian.Uint32(message[56:])} // idiag_rqueue
		if t.buffer > 0 {
			t.queued = min(float64(word(memory, memReceive))/float64(t.buffer), 1)
		}
		if len(info) >= 136 && protocol == unix.IPPROTO_TCP {
			// tcpi_rcv_ssthresh, tcpi_rtt, tcpi_bytes_received, tcpi_rcv_rtt
			t.window, t.rtt, t.received = word(info, 16), word(info, 17), binary.NativeEndian.Uint64(info[128:])
			if own := word(info, 23); own > 0 {
				t.rtt = min(t.rtt, own)
			}
		}
		each(binary.NativeEndian.Uint32(message[68:]), t) // idiag_inode
	})
}

// askDiag sends a request and calls a function for each reply with its attributes, which begin behind the head.
func askDiag(conn *netlink.Conn, data []byte, head int, each func([]byte, map[uint16][]byte)) error {
	messages, err := conn.Execute(netlink.Message{Header: netlink.Header{Type: sockDiagByFamily,
		Flags: netlink.Request | netlink.Dump}, Data: data})
	if err != nil {
		return fmt.Errorf("sock_diag: %w", tree.Netlink(err))
	}
	for _, m := range messages {
		if len(m.Data) < head {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[head:])
		if err != nil {
			return err
		}
		attributes := map[uint16][]byte{}
		for ad.Next() {
			attributes[ad.Type()] = ad.Bytes()
		}
		each(m.Data, attributes)
	}
	return nil
}

// word returns the 32-bit number at an index; 0 if there is none.
func word(b []byte, i int) uint32 {
	if len(b) < 4*(i+1) {
		return 0
	}
	return binary.NativeEndian.Uint32(b[4*i:])
}

// addSockets adds the load of one namespace's sockets between two readings.
func addSockets(l *facts.SocketLoad, before, after socketLook) {
	l.UDPIn += facts.Increase(before.udpIn, after.udpIn)
	l.UDPOut += facts.Increase(before.udpOut, after.udpOut)
	l.ReceiveBuffer += facts.Increase(before.receive, after.receive)
	l.SendBuffer += facts.Increase(before.send, after.send)
	l.NoPort += facts.Increase(before.noPort, after.noPort)
	l.TCPListen += facts.Increase(before.listen, after.listen)
	l.WindowsClosed += facts.Increase(before.closed, after.closed)
	for inode, p := range after.packet {
		l.PacketDrops += facts.Increase(before.packet[inode].drops, p.drops)
	}
	l.Queued = max(l.Queued, after.queued)
}
