package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// An agent names the MAC address that test frames are sent to. So that it cannot direct them to somebody else, it must
// show that frames for that address arrive at it: the client sends a random number there, and the agent answers with
// what it received. It is only told the number's hash.

// ErrElsewhere means that frames for the MAC address that an agent named do not arrive at it.
var ErrElsewhere = errors.New("frames for the agent's MAC address do not arrive at the agent")

// arrivalWithin is how long an agent waits for the number. Emulated machines are silent for seconds.
const arrivalWithin = 10 * time.Second

type arrivalArgs struct {
	On   traffic.Endpoint `json:"on"`
	Hash string           `json:"hash"` // SHA-256 of the number, in hexadecimal
	// From is the client's MAC address. The agent first sends one frame there, so that bridges learn its own.
	From net.HardwareAddr `json:"from"`
}

// arrivalMark is the beginning of the UDP payload; the number follows.
const (
	arrivalMark  = "mppsMAC3"
	arrivalBytes = 16
	arrivalAt    = 14 + 20 + 8 // Ethernet, IPv4 without options, UDP
)

// arrival waits for the number of a hash.
func (p *session) arrival(ctx context.Context, a arrivalArgs) (number string, err error) {
	if err := p.opt.Limits.device(a.On); err != nil {
		return "", err
	}
	if len(a.From) != 6 || a.From[0]&1 != 0 {
		return "", denied("to MAC address %q: expected that of one interface", a.From)
	}
	d, err := a.On.Device()
	if err != nil {
		return "", err
	}
	s, err := openPacket(d, unix.ETH_P_IP)
	if err != nil {
		return "", err
	}
	defer s.close()
	if err := s.send(localFrame(a.From, d.MAC)); err != nil {
		return "", err
	}
	b := make([]byte, 2048)
	for deadline := time.Now().Add(arrivalWithin); time.Now().Before(deadline) && ctx.Err() == nil; {
		n, err := s.receive(b)
		if err != nil {
			return "", err
		}
		if n < arrivalAt+len(arrivalMark)+arrivalBytes || string(b[arrivalAt:][:len(arrivalMark)]) != arrivalMark {
			continue
		}
		found := b[arrivalAt+len(arrivalMark):][:arrivalBytes]
		if sum := sha256.Sum256(found); hex.EncodeToString(sum[:]) == a.Hash {
			return hex.EncodeToString(found), nil
		}
	}
	return "", fmt.Errorf("%s: %w within %v", a.On, ErrElsewhere, arrivalWithin)
}

// ProveArrival returns an error unless frames that leave from a device for a MAC address arrive at an interface of the
// agent.
func (c *Client) ProveArrival(ctx context.Context, from traffic.Device, to net.HardwareAddr, iface string) error {
	number := make([]byte, arrivalBytes)
	if _, err := rand.Read(number); err != nil {
		return fmt.Errorf("make a number: %w", err)
	}
	s, err := openPacket(from, 0)
	if err != nil {
		return err
	}
	defer s.close()
	sum := sha256.Sum256(number)
	args := arrivalArgs{On: traffic.Endpoint{Iface: iface}, Hash: hex.EncodeToString(sum[:]), From: from.MAC}
	answered := make(chan error, 1)
	var found string
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { answered <- c.call(ctx, "arrival", args, &found, arrivalWithin) }()
	frame := arrivalFrame(to, from.MAC, number)
	for every := 20 * time.Millisecond; ; every = min(2*every, 500*time.Millisecond) {
		select {
		case err := <-answered:
			if err == nil && found != hex.EncodeToString(number) {
				err = ErrElsewhere
			}
			return err
		case <-time.After(every):
			if err := s.send(frame); err != nil {
				return err
			}
		}
	}
}

// arrivalFrame is like a test frame, so that filters on the path treat it as one.
func arrivalFrame(to, from net.HardwareAddr, number []byte) []byte {
	b := traffic.Frame{Size: 128, SrcMAC: from, DstMAC: to}.Example()
	copy(b[arrivalAt:], arrivalMark)
	copy(b[arrivalAt+len(arrivalMark):], number)
	return b
}

// localFrame is a frame that nobody evaluates: its EtherType is for local experiments (IEEE 802-2014, 9.2.3).
func localFrame(to, from net.HardwareAddr) []byte {
	frame := append(bytes.Clone(to), from...)
	return append(binary.BigEndian.AppendUint16(frame, 0x88b5), make([]byte, 46)...)
}
