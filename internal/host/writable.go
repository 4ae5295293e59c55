package host

import "mpps/internal/setting"

// Writable tells why values of a kind cannot be written on this machine, whatever they are; nil where they can. On a
// recorded tree only what is a file can.
func (m *Machine) Writable(kind setting.Kind) error {
	if m.live {
		return nil
	}
	switch kind {
	case setting.Sysctl, setting.Sysfs, setting.SysfsCPUs, setting.IRQAffinity:
		return nil
	}
	return errNotLive
}
