package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mpps/internal/measure/search"
	"mpps/internal/measure/search/simulated"
)

// serve answers trials from 'mpps search --trial-command' with a simulated device. Its time is simulated too.
func serve(in io.Reader, out io.Writer, kind, capacity, seed string) error {
	c, err := strconv.ParseFloat(capacity, 64)
	if err != nil || c <= 0 {
		return fmt.Errorf("a capacity of %q: expected packets per second", capacity)
	}
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return fmt.Errorf("a seed of %q: expected a number", seed)
	}
	device, err := simulated.New(kind, c, n)
	if err != nil {
		return err
	}
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var t search.Trial
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return fmt.Errorf("found %q, expected a trial: %w", lines.Text(), err)
		}
		sent, received := device.Trial(t.PPS, t.Seconds)
		if err := answers.Encode(search.Outcome{Sent: sent, Received: received, Seconds: t.Seconds}); err != nil {
			return err
		}
	}
	return lines.Err()
}
