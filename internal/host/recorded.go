package host

import (
	"errors"
	"os"
)

// record writes one value into a recorded tree, as the kernel would show it: the whole file is replaced and ends in a
// newline. A file that is not there is not made.
func (m *Machine) record(name, text string) error {
	f, err := m.root.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}
