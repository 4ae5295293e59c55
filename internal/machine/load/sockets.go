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
	packet                                       map[uint32]uint64  // drops by AF_PACKET socket (inode)
	queued                                       float64            // fill level of the fullest receive queue, 0 to 1
	udp                                          map[uint32]udpLook // by inode
	closed, established                          uint64             // windows of TCP closed so far; connections
	full                                         map[uint32]udpLook // TCP sockets, as in facts.SocketLoad, by inode

	delivered, sent uint64 // by IP to programs, and from them
}

// udpLook has the counters of one UDP or TCP socket.
type udpLook struct {
	port   int
	drops  uint32
	queued float64
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
	return s, s.diagnose()
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
	if udp := counters["Udp.InDatagrams"]; counters["Tcp.InSegs"]+udp > s.delivered {
		s.delivered = counters["Tcp.InSegs"] + udp
	}
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
	inetDiagSKMemInfo = 7
	packetShowMemInfo = 1 << 4
	packetDiagMemInfo = 6
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
		err := askInet(conn, family, unix.IPPROTO_UDP, ^uint32(0), func(inode uint32, u udpLook) { // in every state
			s.queued = max(s.queued, u.queued)
			s.udp[inode] = u
		})
		if err != nil {
			return err
		}
	}
	s.packet = map[uint32]uint64{}
	request := make([]byte, 20) // struct packet_diag_req
	request[0] = unix.AF_PACKET
	binary.NativeEndian.PutUint32(request[8:], packetShowMemInfo)
	return askDiag(conn, request, 16, packetDiagMemInfo, func(message, memory []byte) {
		s.packet[binary.NativeEndian.Uint32(message[4:])] = uint64(word(memory, memDrops))
	})
}

// maxEstablished is how many connections a namespace may have for its TCP sockets to be read: a look must stay cheap.
const maxEstablished = 10_000

// diagnoseTCP reads which TCP sockets have a receive queue that is at least half full. It is called where windows were
// closed since an earlier look.
func (s *socketLook) diagnoseTCP() error {
	if s.established > maxEstablished {
		return fmt.Errorf("%d TCP connections: at most %d are looked at", s.established, maxEstablished)
	}
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return fmt.Errorf("sock_diag: %w", err)
	}
	defer conn.Close()
	s.full = map[uint32]udpLook{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := askInet(conn, family, unix.IPPROTO_TCP, 1<<unix.BPF_TCP_ESTABLISHED, func(inode uint32, u udpLook) {
			if u.queued >= 0.5 {
				s.full[inode] = u
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// askInet calls a function for each socket of a protocol in states that are bits of a mask, with its inode.
func askInet(conn *netlink.Conn, family, protocol byte, states uint32, each func(uint32, udpLook)) error {
	request := make([]byte, 56) // struct inet_diag_req_v2
	request[0], request[1], request[2] = family, protocol, 1<<(inetDiagSKMemInfo-1)
	binary.NativeEndian.PutUint32(request[4:], states)
	return askDiag(conn, request, 72, inetDiagSKMemInfo, func(message, memory []byte) {
		u := udpLook{port: int(binary.BigEndian.Uint16(message[4:])), drops: word(memory, memDrops)}
		if room := word(memory, memReceiveBuffer); room > 0 {
			u.queued = min(float64(word(memory, memReceive))/float64(room), 1)
		}
		each(binary.NativeEndian.Uint32(message[68:]), u) // idiag_inode
	})
}

// askDiag sends a request and calls a function for each reply that has the attribute, which begins behind the head.
func askDiag(conn *netlink.Conn, data []byte, head int, attribute uint16, each func(message, words []byte)) error {
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
		for ad.Next() {
			if ad.Type() == attribute && len(ad.Bytes()) >= 4*(memReceiveBuffer+1) {
				each(m.Data, ad.Bytes())
			}
		}
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
	for inode, n := range after.packet {
		l.PacketDrops += facts.Increase(before.packet[inode], n)
	}
	l.Queued = max(l.Queued, after.queued)
}
