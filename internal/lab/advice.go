package lab

// advised is an error with what the user can do about it, for whoever prints it.
type advised struct {
	error
	hint string
}

// Hint is what the user can do.
func (a *advised) Hint() string { return a.hint }

func (a *advised) Unwrap() error { return a.error }

// advise adds a hint to an error.
func advise(err error, hint string) error { return &advised{err, hint} }
