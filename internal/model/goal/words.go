package goal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// Names returns the names of a goal's parts, as the command line and goal.yaml spell them.
func Names() []string {
	return []string{"pps", "bulk", "latency", "frame", "loss", "cpus", "guest", "nic", "data-nic", "leave", "consent"}
}

// Lists reports whether a part of a goal is a list.
func Lists(name string) bool { return name == "data-nic" || name == "leave" || name == "consent" }

// Set sets a part of the goal, given by one of Names. Only lists have other than one value.
func (g *Goal) Set(name string, values ...string) (err error) {
	text := strings.Join(values, ",")
	switch name {
	case "pps":
		g.PPS, err = parseTarget(text)
	case "bulk":
		g.Bulk, err = parseTarget(text)
	case "latency":
		if g.Latency, err = time.ParseDuration(text); err != nil {
			err = fmt.Errorf("expected a time such as 20us, found %q", text)
		}
	case "frame":
		if g.Frame, err = strconv.Atoi(text); err != nil || g.Frame == 0 {
			err = fmt.Errorf("expected 64 to 9018 bytes, found %q", text)
		}
	case "loss":
		g.Loss, err = parseShare(text)
	case "cpus":
		g.CPUs, err = setting.ParseCPUs(text)
	case "guest":
		g.Guest = text
	case "nic":
		g.NIC = text
	case "data-nic":
		g.DataNICs = values
	case "leave":
		g.Leave = values
	case "consent":
		g.Consent = nil
		for _, risk := range values {
			if !slices.Contains(Risks(), Risk(risk)) {
				return fmt.Errorf("unknown risk %q, expected security, data, connectivity or platform", risk)
			}
			g.Consent = append(g.Consent, Risk(risk))
		}
	default:
		err = errors.New("no part of a goal")
	}
	return err
}

// Complete makes the goal that of Gentlest if it names no target, and checks it. How many bytes, which guest and which
// CPUs are no target by themselves.
func (g *Goal) Complete() error {
	if g.PPS == 0 && g.Bulk == 0 && g.Latency == 0 && g.NIC != "vf" {
		g.PPS, g.Unnamed = Gentlest().PPS, true
	}
	return g.Check()
}

func parseTarget(text string) (float64, error) {
	rate, err := ParseRate(text)
	if err == nil && rate == 0 {
		err = errors.New("expected more than nothing")
	}
	return rate, err
}

// parseShare parses a share such as 0.005 or 0.5%.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("expected a share such as 0.005 or 0.5%%, found %q", text)
	}
	if isPercent {
		v /= 100
	}
	return v, nil
}
