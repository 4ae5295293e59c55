package facts

import (
	"encoding/json"
	"strings"
)

// Unseen is a part of the host that could not be seen.
type Unseen struct {
	What string     `json:"what"`           // "rules of iptables-legacy", for people
	Why  string     `json:"why"`            // "needs root", "virsh is not installed", for people
	Part UnseenPart `json:"part,omitempty"` // where something depends on it
	Of   string     `json:"of,omitempty"`   // what the part belongs to: a guest, a NIC, a tool
}

// UnseenPart names what could not be seen.
type UnseenPart string

// The parts that something depends on.
const (
	UnseenGuests     UnseenPart = "guests"     // libvirt's guests could not be listed
	UnseenDefinition UnseenPart = "definition" // of a guest
	UnseenChannels   UnseenPart = "channels"   // in use by a NIC, inside a guest
	UnseenRules      UnseenPart = "rules"      // of a tool: nft, iptables-legacy
)

// The words for them.
const (
	guestsOf     = "guests of libvirt"
	definitionOf = "definition of guest "
	channelsOf   = "channels of "
	rulesOf      = "rules of "
	nftTextOf    = "text of the rules of nft"
)

// GuestsUnseen is that libvirt's guests could not be listed.
func GuestsUnseen(why string) Unseen { return Unseen{guestsOf, why, UnseenGuests, ""} }

// DefinitionUnseen is that a guest's definition could not be read.
func DefinitionUnseen(guest, why string) Unseen {
	return Unseen{definitionOf + guest, why, UnseenDefinition, guest}
}

// ChannelsUnseen is that a guest's ethtool did not say how many queues a NIC uses.
func ChannelsUnseen(nic, why string) Unseen {
	return Unseen{channelsOf + nic, why, UnseenChannels, nic}
}

// RulesUnseen is that the rules of a tool could not be read: all, or those of a table.
func RulesUnseen(tool, table, why string) Unseen {
	what := rulesOf + tool
	if table != "" {
		what += " in table " + table
	}
	return Unseen{what, why, UnseenRules, tool}
}

// NftTextUnseen is that nft did not print its rules.
func NftTextUnseen(why string) Unseen { return Unseen{nftTextOf, why, UnseenRules, "nft"} }

// UnmarshalJSON reads a part. Snapshots of earlier versions name it in words only.
func (u *Unseen) UnmarshalJSON(text []byte) error {
	type plain Unseen
	if err := json.Unmarshal(text, (*plain)(u)); err != nil {
		return err
	}
	guest, definition := strings.CutPrefix(u.What, definitionOf)
	nic, channels := strings.CutPrefix(u.What, channelsOf)
	tool, rules := strings.CutPrefix(u.What, rulesOf)
	switch {
	case u.Part != "":
	case u.What == guestsOf:
		u.Part = UnseenGuests
	case definition:
		u.Part, u.Of = UnseenDefinition, guest
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
