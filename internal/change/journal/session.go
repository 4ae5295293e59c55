package journal

import (
	"os"
	"time"
)

// Session is a work of many transactions that is done or undone as a whole: a tuning run, of which only the last
// transaction, which bears no session, is to stay. While one of a session stands its work is under way or was
// interrupted.
type Session struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Began uint64 `json:"began"` // of the process, as Holder.Began
}

// NewSession is a session of this process. what says what it is: "tune".
func NewSession(what string) *Session {
	_, began := process(os.Getpid())
	return &Session{Name: what + "-" + time.Now().UTC().Format("20060102T150405.000000Z"), PID: os.Getpid(),
		Began: began}
}

// AtWork reports whether the session's process lives.
func (s *Session) AtWork() bool {
	alive, began := process(s.PID)
	return alive && began == s.Began
}

// Is reports whether two sessions are the same; no session is none.
func (s *Session) Is(other *Session) bool {
	return s != nil && other != nil && s.Name == other.Name
}

// Unended is the newest session of which something stands, or may stand, with its transactions, oldest first; nil where
// there is none.
func (l *Ledger) Unended() (*Session, []*Transaction) {
	open := l.Open()
	var session *Session
	for _, t := range open {
		if t.Header.Session != nil {
			session = t.Header.Session
		}
	}
	if session == nil {
		return nil, nil
	}
	var of []*Transaction
	for _, t := range open {
		if session.Is(t.Header.Session) {
			of = append(of, t)
		}
	}
	return session, of
}
