package lab

// advised is an error with advice for the user.
type advised struct {
	error
	hint string
}

func (a *advised) Hint() string { return a.hint }

func (a *advised) Unwrap() error { return a.error }

// advise adds advice to an error.
func advise(err error, hint string) error { return &advised{err, hint} }
