package agent

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

// Protocol is the version of the messages and of an agent's capabilities. Both sides must have the same: an agent
// ignores unknown fields, so an older one would silently do something other than requested.
//
// 2: transactions over UDP, connections as transactions, ramp-up, mixed frame sizes; pings are answered.
// 3: data connections prove that they belong to the session, and agents that they have the MAC address they name.
// 4: so do the connections of crr and the datagrams of UDP tests.
// 5: info has the CPUs that the agent may use and the TX queues of each interface: the client chooses the workers.
const Protocol = 5

const (
	maxHello       = 4 << 10   // bytes of a line of the hello
	maxRequest     = 256 << 10 // bytes of a request
	maxAnswer      = 8 << 20   // bytes of an answer: a histogram can be long
	defaultSilence = 1500 * time.Millisecond
	leastSilence   = 10 * time.Millisecond
	maxSilence     = 30 * time.Second
	helloWithin    = 10 * time.Second // for all of it
)

// Errors of the hello, on both sides.
var (
	ErrVersion = errors.New("agent speaks another version of the protocol")
	ErrSecret  = errors.New("agent and client do not have the same secret")
	ErrHello   = errors.New("not an mpps agent")
	ErrBusy    = errors.New("agent serves as many clients as it can")
	ErrUser    = errors.New("its socket belongs to another user")
)

// Hello is the first line, sent by the agent.
type Hello struct {
	MPPS      string `json:"mpps"` // version of the program
	Protocol  int    `json:"protocol"`
	Challenge string `json:"challenge"` // 32 bytes in hexadecimal
	Secret    bool   `json:"secret"`    // a secret is required
}

type helloReply struct {
	MPPS      string `json:"mpps"`
	Protocol  int    `json:"protocol"`
	Challenge string `json:"challenge"`
	Proof     string `json:"proof,omitempty"`
	SilenceMS int64  `json:"silence_ms,omitempty"`
}

type helloDone struct {
	Proof     string `json:"proof,omitempty"`
	SilenceMS int64  `json:"silence_ms,omitempty"`
	Error     string `json:"error,omitempty"` // "protocol", "secret" or "busy"
}

type request struct {
	ID   uint64          `json:"id"` // 0: no answer
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID     uint64          `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *RemoteError    `json:"error,omitempty"`
}

// A RemoteError is an error that the agent returned.
type RemoteError struct {
	Code string `json:"code"` // see codes
	Text string `json:"text"`
}

// maxText is how many characters of an agent's error are shown.
const maxText = 400

func (e *RemoteError) Error() string { return fmt.Sprintf("agent: %.*s", maxText, e.Text) }

// codes identify errors on the wire, so that errors.Is works on the other side.
var codes = []struct {
	code string
	err  error
}{
	{"no-device", traffic.ErrNoDevice},
	{"config", traffic.ErrConfig},
	{"frame", traffic.ErrFrame},
	{"config", talk.ErrConfig},
	{"no-handle", errNoHandle},
	{"refused", errRefused},
	{"denied", ErrDenied},
	{"elsewhere", ErrElsewhere},
}

func (e *RemoteError) Is(target error) bool {
	for _, c := range codes {
		if c.code == e.Code && c.err == target {
			return true
		}
	}
	return false
}

func remoteError(err error) *RemoteError {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return &RemoteError{c.code, err.Error()}
		}
	}
	var unsupported *traffic.UnsupportedError
	if errors.As(err, &unsupported) {
		return &RemoteError{"unsupported", err.Error()}
	}
	return &RemoteError{"failed", err.Error()}
}

func challenge() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("make a challenge: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// mac returns the HMAC over parts, each preceded by its length.
func mac(key []byte, parts ...string) string {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func same(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// A wire sends and receives lines. After secure, every line starts with its MAC.
type wire struct {
	conn net.Conn
	in   *bufio.Reader

	most    int    // bytes of a line that is received
	session string // differs in each session; with a secret only both ends know it

	out      sync.Mutex
	key      []byte // nil: no MACs
	us, them string // "client" and "server", or vice versa
	sent     uint64
	received uint64
}

func newWire(c net.Conn) *wire {
	return &wire{conn: c, in: bufio.NewReaderSize(c, 4<<10), most: maxHello}
}

// begin ends the hello: lines may be longer, and have MACs if there is a secret.
func (w *wire) begin(secret []byte, server, client, us, them string, most int) {
	w.session, w.most = mac(secret, "session", server, client), most
	if len(secret) > 0 {
		w.key, w.us, w.them = []byte(w.session), us, them
	}
}

// dataKey is the key of the session's data connections. It is never sent.
func (w *wire) dataKey() []byte { return []byte(mac([]byte(w.session), "data")) }

func (w *wire) send(v any, within time.Duration) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.out.Lock()
	defer w.out.Unlock()
	if w.key != nil {
		w.sent++
		line = append([]byte(mac(w.key, w.us, fmt.Sprint(w.sent), string(line))+" "), line...)
	}
	if len(line) >= maxAnswer {
		return fmt.Errorf("message of %d bytes, at most %d", len(line), maxAnswer)
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err = w.conn.Write(append(line, '\n'))
	return err
}

// receive reads one line. within 0 waits forever.
func (w *wire) receive(v any, within time.Duration) error {
	var deadline time.Time
	if within > 0 {
		deadline = time.Now().Add(within)
	}
	if err := w.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	line, err := readLine(w.in, w.most)
	if err != nil {
		return err
	}
	if w.key != nil {
		w.received++
		sum, text, _ := bytes.Cut(line, []byte(" "))
		if !same(string(sum), mac(w.key, w.them, fmt.Sprint(w.received), string(text))) {
			return fmt.Errorf("%w: a line was changed on the way", ErrSecret)
		}
		line = text
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("%w: %w", ErrHello, err)
	}
	return nil
}

// readLine reads a line of up to most bytes.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return nil, fmt.Errorf("%w: line of more than %d bytes", ErrHello, most)
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		default:
			return line[:len(line)-1], nil
		}
	}
}
