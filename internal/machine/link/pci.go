package link

import "mpps/internal/model/facts"

// configBytes is the size of the configuration space that has the capabilities of PCI 3.0; without root sysfs shows 64
// bytes of it.
const configBytes = 256

// deviceControl returns the largest read request in bytes and whether relaxed ordering is enabled, from a function's
// configuration space (include/uapi/linux/pci_regs.h: PCI_STATUS_CAP_LIST, PCI_CAPABILITY_LIST, PCI_CAP_ID_EXP,
// PCI_EXP_DEVCTL); 0 and empty if it has no such capability or is cut short.
func deviceControl(config string) (readRequest int, relaxed facts.Answer) {
	const (
		status, hasList  = 0x06, 0x10
		list             = 0x34
		express, control = 0x10, 8
		relaxedBit       = 1 << 4
	)
	if len(config) < configBytes || config[status]&hasList == 0 {
		return 0, ""
	}
	at := int(config[list]) &^ 3
	for range configBytes / 4 { // a broken list may have a cycle
		if at < list || at+control+1 >= len(config) {
			return 0, ""
		}
		if config[at] != express {
			at = int(config[at+1]) &^ 3
			continue
		}
		word := int(config[at+control]) | int(config[at+control+1])<<8
		relaxed = facts.No
		if word&relaxedBit != 0 {
			relaxed = facts.Yes
		}
		return 128 << (word >> 12 & 7), relaxed
	}
	return 0, ""
}
