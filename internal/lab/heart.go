package lab

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// heartLimit is several times what the heart needs for its first beat.
const heartLimit = 20 * time.Second

// checkHeart waits for the first beat of /lab/heart: without it a CPU that stops would go unnoticed. It logs the CPUs
// that the heart does not visit.
func (l *Lab) checkHeart(ctx context.Context) error {
	limited, cancel := l.withFairTimeout(ctx, heartLimit)
	defer cancel()
	said, err := l.Must(limited, "until [ -s /run/lab-heart ]; do sleep 0.05; done; cat /run/lab-heart")
	if limited.Err() != nil {
		return fmt.Errorf("the heart of the lab host has not begun to beat within %v", heartLimit)
	}
	if err != nil {
		return err
	}
	blind, err := readHeart(said)
	if err == nil && blind != "" {
		l.log("lab: " + blind)
	}
	return err
}

// readHeart parses the heart's report: an error if it does not beat, and which CPUs it does not watch.
func readHeart(said string) (blind string, err error) {
	values := map[string]string{}
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	if values["visited"] == "" {
		return "", fmt.Errorf("the heart of the lab host does not beat: %s", values["ended"])
	}
	var not []string
	if cpus := values["isolated"]; cpus != "" {
		not = append(not, "the isolated CPUs "+cpus)
	}
	if cpus := values["refused"]; cpus != "" {
		not = append(not, "CPU "+cpus+", which it cannot visit")
	}
	if len(not) > 0 {
		blind = "the heart does not watch " + strings.Join(not, " and ")
	}
	return blind, nil
}
