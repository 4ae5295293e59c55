package journal

import (
	"os"
	"slices"
	"time"
)

// Session groups transactions that are kept or undone as a whole, such as a tuning run. Only the last transaction,
// which is outside the session, is to stay. An open transaction of a session means that the session is in progress or
// was interrupted.
type Session struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Began uint64 `json:"began"` // of the process, as Holder.Began
}

// NewSession returns a session of this process. what is its kind: "tune".
func NewSession(what string) *Session {
	_, began := processStart(os.Getpid())
	return &Session{Name: what + "-" + time.Now().UTC().Format(idTime), PID: os.Getpid(), Began: began}
}

// Running reports whether the session's process lives.
func (s *Session) Running() bool {
	alive, began := processStart(s.PID)
	return alive && began == s.Began
}

// Is reports whether two sessions are the same. nil equals nothing.
func (s *Session) Is(other *Session) bool {
	return s != nil && other != nil && s.Name == other.Name
}

// OpenSession returns the newest session with open transactions, and those transactions, oldest first; nil if there is
// none.
func (l *Ledger) OpenSession() (*Session, []*Transaction) {
	open := l.Open()
	for _, newest := range slices.Backward(open) {
		if session := newest.Header.Session; session != nil {
			other := func(t *Transaction) bool { return !session.Is(t.Header.Session) }
			return session, slices.DeleteFunc(open, other)
		}
	}
	return nil, nil
}
