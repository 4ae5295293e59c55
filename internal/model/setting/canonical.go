package setting

import (
	"fmt"
	"strconv"
	"strings"
)

func canonicalFields(raw string) (string, error) {
	return strings.Join(strings.Fields(raw), " "), nil
}

func canonicalCount(raw string) (string, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(raw), 0, 63)
	if err != nil {
		return "", fmt.Errorf("expected a count, found %q", raw)
	}
	return strconv.FormatUint(n, 10), nil
}

func canonicalSwitch(raw string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(raw)) {
	case "on", "1", "true", "yes":
		return "on", nil
	case "off", "0", "false", "no":
		return "off", nil
	}
	return "", fmt.Errorf("expected on or off, found %q", raw)
}

func canonicalCountOrSwitch(raw string) (string, error) {
	if s := strings.ToLower(strings.TrimSpace(raw)); s == "on" || s == "off" {
		return s, nil
	}
	return canonicalCount(raw)
}

func canonicalCPUs(raw string) (string, error) {
	set, err := ParseCPUs(raw)
	if err != nil {
		return "", err
	}
	return set.String(), nil
}

// flowHashLetters are ethtool's rx-flow-hash letters in canonical order (ethtool.c, do_srxclass): L2DA, VLAN, L3
// protocol, source, destination, bytes 0–1 and 2–3 of the L4 header, discard.
const flowHashLetters = "mvtsdfnr"

func canonicalFlowHash(raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	for _, r := range raw {
		if !strings.ContainsRune(flowHashLetters, r) {
			return "", fmt.Errorf("expected letters of %q, found %q", flowHashLetters, raw)
		}
	}
	var b strings.Builder
	for _, r := range flowHashLetters {
		if strings.ContainsRune(raw, r) {
			b.WriteRune(r)
		}
	}
	return b.String(), nil
}
