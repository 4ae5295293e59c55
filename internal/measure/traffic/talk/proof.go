package talk

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Both ends of a data connection prove that they have the key of its session before anything is sent or counted. A
// server serves nobody else, and a client sends nothing to an address where another program listens. Each end's
// challenge is new, so that a proof cannot be used twice.
//
//	client   hello, challenge
//	server   challenge, proof
//	client   proof
//
// The ports that crr and UDP tests continue on know the client by a token, which both ends derive from the key and the
// challenges: the first bytes of each connection of crr, and a separate datagram over UDP.

const (
	challengeBytes = 16
	proofBytes     = sha256.Size
	// TokenBytes is the size of a token, and so the least of a request of CRR.
	TokenBytes = 16
)

// ErrKey means that the far end of a data connection did not prove that it belongs to the session.
var ErrKey = errors.New("what listens there does not belong to this test")

// NewKey returns a random key for a Server and its clients.
func NewKey() ([]byte, error) {
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func proof(key []byte, who string, hello, client, server []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(who + "\n"))
	for _, part := range [][]byte{hello, client, server} { // of fixed lengths
		h.Write(part)
	}
	return h.Sum(nil)
}

// tokenOf returns the token of the ports that belong to a connection.
func tokenOf(key, hello, client, server []byte) []byte {
	return proof(key, "token", hello, client, server)[:TokenBytes]
}

// introduce sends the hello of a connection and proves to each other that both ends have the key. It returns the
// connection's token.
func introduce(ctx context.Context, c net.Conn, key []byte, h hello) (token []byte, err error) {
	if err := c.SetDeadline(time.Now().Add(helloWithin)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })() // which ends what waits
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	ours := make([]byte, challengeBytes)
	if _, err := rand.Read(ours); err != nil {
		return nil, fmt.Errorf("make a challenge: %w", err)
	}
	text := h.bytes()
	if _, err := c.Write(append(text[:helloBytes:helloBytes], ours...)); err != nil {
		return nil, err
	}
	b := make([]byte, challengeBytes+proofBytes)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	theirs := b[:challengeBytes]
	if !hmac.Equal(b[challengeBytes:], proof(key, "server", text, ours, theirs)) {
		return nil, ErrKey
	}
	if _, err := c.Write(proof(key, "client", text, ours, theirs)); err != nil {
		return nil, err
	}
	return tokenOf(key, text, ours, theirs), c.SetDeadline(time.Time{})
}

// receive is introduce at the server's end. The caller limits its time.
func receive(c net.Conn, key []byte) (h hello, token []byte, err error) {
	b := make([]byte, helloBytes+challengeBytes)
	if _, err := io.ReadFull(c, b); err != nil {
		return hello{}, nil, err
	}
	text, theirs := b[:helloBytes], b[helloBytes:]
	if h, err = parseHello(text); err != nil {
		return hello{}, nil, err
	}
	ours := make([]byte, challengeBytes)
	if _, err := rand.Read(ours); err != nil {
		return hello{}, nil, fmt.Errorf("make a challenge: %w", err)
	}
	if _, err := c.Write(append(ours, proof(key, "server", text, theirs, ours)...)); err != nil {
		return hello{}, nil, err
	}
	b = make([]byte, proofBytes)
	if _, err := io.ReadFull(c, b); err != nil {
		return hello{}, nil, err
	}
	if !hmac.Equal(b, proof(key, "client", text, theirs, ours)) {
		return hello{}, nil, ErrKey
	}
	return h, tokenOf(key, text, theirs, ours), nil
}
