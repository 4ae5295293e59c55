package lab

// Mode is what L1 does once it is up.
type Mode string

const (
	Shell   Mode = "shell"   // nothing but the command channel: first command after about 5 s
	Systemd Mode = "systemd" // a whole Debian: first command after about 14 s, complete after 27 s
)
