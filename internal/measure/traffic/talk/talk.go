// Package talk has the endpoints of a measurement over sockets: byte streams and transactions, as netperf's TCP_STREAM,
// TCP_RR and UDP_RR.
//
// A client opens each connection with a hello that names the service, and both ends prove that they have the same key;
// one server answers them all on one port. A UDP service continues on a port that the server sends in reply to the
// hello, for as long as the connection lasts. Bytes are counted where they are received, transactions where they are
// started.
//
// Sockets are used with blocking system calls on dedicated threads: a wake-up through the Go scheduler's poller would
// become part of each transaction.
package talk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// ErrConfig is wrapped by errors about a configuration.
var ErrConfig = errors.New("bad configuration of a TCP or UDP test")

// The hello: 8 bytes of magic, then service, then two sizes.
const (
	helloMagic = "mppsTCP1"
	helloBytes = 8 + 4 + 4 + 4

	serviceSink   = 1 // the client sends, the server answers with its counts; the second size is the ramp, ms
	serviceSource = 2 // the server sends until the client closes
	serviceRR     = 3 // the server answers each request with a response
	serviceUDPRR  = 4 // the server sends a UDP port, and answers each request there with a response
	serviceCRR    = 5 // the server sends a TCP port, and accepts one request per connection there

	serviceSourceFile = 6 // like serviceSource, from a file
	lastService       = serviceSourceFile
)

const (
	maxMessage  = 64 << 20
	defaultBuf  = 128 << 10
	helloWithin = 10 * time.Second // emulated machines are slow
)

// MaxDatagram is the payload of the largest UDP datagram over IPv4, in bytes: 65535 − 20 − 8.
const MaxDatagram = 65507

type hello struct {
	service           uint32
	request, response uint32 // bytes; for a source request is the buffer
}

// memory returns how many bytes the server holds for a connection at most.
func (h hello) memory() uint64 {
	switch request, response := uint64(h.request), uint64(h.response); h.service {
	case serviceSink: // the response is a time
		return request
	case serviceSourceFile:
		return 2 * request
	default: // net.ipv4.udp_mem bounds what waits in all sockets for datagrams
		return request + response
	}
}

func (h hello) bytes() []byte {
	b := append(make([]byte, 0, helloBytes), helloMagic...)
	b = binary.BigEndian.AppendUint32(b, h.service)
	b = binary.BigEndian.AppendUint32(b, h.request)
	return binary.BigEndian.AppendUint32(b, h.response)
}

func parseHello(b []byte) (hello, error) {
	if len(b) != helloBytes || string(b[:8]) != helloMagic {
		return hello{}, fmt.Errorf("hello of a TCP test: found %q, expected %q", b[:min(8, len(b))], helloMagic)
	}
	h := hello{
		service:  binary.BigEndian.Uint32(b[8:]),
		request:  binary.BigEndian.Uint32(b[12:]),
		response: binary.BigEndian.Uint32(b[16:]),
	}
	if h.service < serviceSink || h.service > lastService {
		return h, fmt.Errorf("hello of a TCP test: service %d, expected 1 to %d", h.service, lastService)
	}
	least, most := uint32(0), uint32(maxMessage)
	if h.service >= serviceRR && h.service < serviceSourceFile {
		least = 1
	}
	switch h.service {
	case serviceUDPRR:
		most = MaxDatagram
	case serviceCRR:
		if h.request < TokenBytes {
			return h, fmt.Errorf("hello of a TCP test: request of %d bytes, expected %d for the token", h.request,
				TokenBytes)
		}
	}
	if h.request < 1 || h.request > most || h.response < least || h.response > most {
		return h, fmt.Errorf("hello of a TCP test: sizes %d and %d, expected 1 to %d", h.request, h.response, most)
	}
	return h, nil
}

// shortMessage is the size in bytes up to which copying a message takes less time than the Go scheduler adds to a
// system call.
const shortMessage = 4096

// A conn is a connected socket in blocking mode.
type conn struct {
	fd   int
	once sync.Once
	slot slot // for short-lived connections, instead of fd

	token []byte // of the ports that belong to the connection
}

// block takes a connection from the poller and makes it blocking.
func block(c interface {
	io.Closer
	File() (*os.File, error)
}) (*conn, error) {
	f, err := c.File() // a duplicate, which closing c does not affect
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.Close(), unix.SetNonblock(fd, false)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &conn{fd: fd}, nil
}

// abort ends every call on the connection, from any goroutine.
func (c *conn) abort() {
	if c.fd < 0 {
		c.slot.abort()
		return
	}
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
}

// reset is abort for an end that gives up: close then sends an RST. After a FIN alone, a client that was last told of a
// closed window would keep waiting for it to open, up to a minute (net/ipv4/tcp_minisocks.c: a socket in FIN_WAIT2
// answers with its old window).
func (c *conn) reset() {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	c.abort()
}

// close may be called once nothing else uses the connection.
func (c *conn) close() { c.once.Do(func() { unix.Close(c.fd) }) }

// read is recv(2). 0 bytes become io.EOF.
func (c *conn) read(b []byte) (int, error) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)), 0, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

func (c *conn) readFull(b []byte) error {
	for len(b) > 0 {
		n, err := c.read(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// write writes all of b, without a signal if the far end is gone.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		n, errno := c.send(b)
		switch errno {
		case 0:
			b = b[n:]
		case unix.EINTR:
		default:
			return errno
		}
	}
	return nil
}

// sendNow and receiveNow are send(2) and recv(2) that never block, but return EAGAIN.
func (c *conn) sendNow(b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func (c *conn) receiveNow(b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// send is send(2). A short message, which leaves at once unless the buffer is full, is first tried without notifying
// the Go scheduler of the system call, which takes about 50 ns.
func (c *conn) send(b []byte) (int, syscall.Errno) {
	if len(b) <= shortMessage {
		if n, errno := c.sendNow(b); errno != unix.EAGAIN {
			return n, errno
		}
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

func (c *conn) noDelay() error {
	return unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// retransmits returns the number of retransmitted segments.
func (c *conn) retransmits() (uint32, error) {
	i, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, err
	}
	return i.Total_retrans, nil
}

// listenIn listens in a named network namespace ("" for this one).
func listenIn(netns, addr string) (l net.Listener, err error) {
	err = traffic.Endpoint{Netns: netns}.Do(func() error {
		var c net.ListenConfig
		c.SetMultipathTCP(false) // plain TCP is measured
		l, err = c.Listen(context.Background(), "tcp", addr)
		return err
	})
	return l, err
}
