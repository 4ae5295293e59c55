package facts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Unseen is a part of the host that could not be read.
type Unseen struct {
	What string     `json:"what"`           // "rules of iptables-legacy", for people
	Why  string     `json:"why"`            // "needs root", "virsh is not installed", for people
	Part UnseenPart `json:"part,omitempty"` // set if something depends on it
	Of   string     `json:"of,omitempty"`   // guest, NIC or tool that the part belongs to
}

// UnseenPart identifies an unseen part.
type UnseenPart string

// Parts that something depends on.
const (
	UnseenGuests     UnseenPart = "guests"     // libvirt's guests could not be listed
	UnseenDefinition UnseenPart = "definition" // of a guest
	UnseenChannels   UnseenPart = "channels"   // in use by a NIC, inside a guest
	UnseenRules      UnseenPart = "rules"      // of a tool: nft, iptables-legacy
	UnseenMachines   UnseenPart = "machines"   // virtual machines that are not QEMU's, of a program
	UnseenThreads    UnseenPart = "threads"    // of a running guest: its QEMU was not found
	UnseenProcess    UnseenPart = "process"    // that calls itself a guest, of that name
)

// guestParts keep guests from being judged.
var guestParts = []UnseenPart{UnseenGuests, UnseenDefinition, UnseenMachines, UnseenThreads, UnseenProcess}

// IsGuests reports whether guests, or what they run with, could not be seen.
func (u Unseen) IsGuests() bool { return slices.Contains(guestParts, u.Part) }

// Texts of the parts.
const (
	guestsOf     = "guests of libvirt"
	definitionOf = "definition of guest "
	threadsOf    = "threads of guest "
	channelsOf   = "channels of "
	rulesOf      = "rules of "
	nftTextOf    = "text of the rules of nft"
)

// GuestsUnseen: libvirt's guests could not be listed.
func GuestsUnseen(why string) Unseen { return Unseen{guestsOf, why, UnseenGuests, ""} }

// DefinitionUnseen: a guest's definition could not be read.
func DefinitionUnseen(guest, why string) Unseen {
	return Unseen{definitionOf + guest, why, UnseenDefinition, guest}
}

// ThreadsUnseen: the QEMU process of a running guest was not found.
func ThreadsUnseen(guest string) Unseen {
	return Unseen{threadsOf + guest, "its QEMU process is not to be seen", UnseenThreads, guest}
}

// MachinesUnseen: a program runs virtual machines that mpps has no rules for, in n processes, of which pid is one.
func MachinesUnseen(program string, n, pid int) Unseen {
	return Unseen{"virtual machines of " + program, fmt.Sprintf("mpps judges guests of QEMU alone (%d of its "+
		"processes, such as %d)", n, pid), UnseenMachines, program}
}

// ChannelsUnseen: a guest's ethtool did not report how many queues a NIC uses.
func ChannelsUnseen(nic, why string) Unseen {
	return Unseen{channelsOf + nic, why, UnseenChannels, nic}
}

// RulesUnseen: the rules of a tool could not be read, all of them or those of a table.
func RulesUnseen(tool, table, why string) Unseen {
	what := rulesOf + tool
	if table != "" {
		what += " in table " + table
	}
	return Unseen{what, why, UnseenRules, tool}
}

// NftTextUnseen: nft did not print its rules.
func NftTextUnseen(why string) Unseen { return Unseen{nftTextOf, why, UnseenRules, "nft"} }

// UnmarshalJSON also reads snapshots of earlier versions, which identify the part only in words.
func (u *Unseen) UnmarshalJSON(text []byte) error {
	type plain Unseen
	if err := json.Unmarshal(text, (*plain)(u)); err != nil {
		return err
	}
	guest, definition := strings.CutPrefix(u.What, definitionOf)
	running, threads := strings.CutPrefix(u.What, threadsOf)
	nic, channels := strings.CutPrefix(u.What, channelsOf)
	tool, rules := strings.CutPrefix(u.What, rulesOf)
	switch {
	case u.Part != "":
	case u.What == guestsOf:
		u.Part = UnseenGuests
	case definition:
		u.Part, u.Of = UnseenDefinition, guest
	case threads:
		u.Part, u.Of = UnseenThreads, running
	case channels:
		u.Part, u.Of = UnseenChannels, nic
	case rules:
		u.Part = UnseenRules
		u.Of, _, _ = strings.Cut(tool, " ") // " in table nat"
	case u.What == nftTextOf:
		u.Part, u.Of = UnseenRules, "nft"
	}
	return nil
}
