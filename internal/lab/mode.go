package lab

// Mode is what L1 does once it is up.
type Mode string

const (
	Shell   Mode = "shell"   // only the command channel: first command after about 5 s
	Systemd Mode = "systemd" // a complete Debian: first command after about 14 s, all started after 27 s
)
