package facts

import (
	"encoding/json"
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
)

// Their texts.
const (
	guestsOf     = "guests of libvirt"
	definitionOf = "definition of guest "
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
