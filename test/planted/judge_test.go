package planted

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// shareSlack is how far the share of lost packets in an answer may be off: what was sent is counted a little longer
// than mpps watches.
const shareSlack = 0.1

// judge compares what was found with what was planted.
func (o *Outcome) judge(words *strings.Replacer) {
	e := o.Scenario.Expect
	o.Wrong = ""
	switch b := o.Found.Bottleneck; {
	case b == nil && e.Healthy():
	case b == nil:
		o.Wrong = "nothing was named"
	case e.Healthy():
		o.Wrong = fmt.Sprintf("%s was named where nothing is wrong", b.Kind)
	case !slices.Contains(e.Kinds, string(b.Kind)):
		o.Wrong = fmt.Sprintf("%s, expected %s", b.Kind, strings.Join(e.Kinds, " or "))
	case e.Stage != "" && b.Stage != e.Stage:
		o.Wrong = fmt.Sprintf("stage %s, expected %s", b.Stage, e.Stage)
	case e.Object != "" && !strings.Contains(b.Object, words.Replace(e.Object)):
		o.Wrong = fmt.Sprintf("object %q, expected %q in it", b.Object, words.Replace(e.Object))
	case e.Reason != "" && !strings.Contains(b.Say, e.Reason):
		o.Wrong = fmt.Sprintf("%q, expected the reason %s", b.Say, e.Reason)
	}
	share := 1.0
	if o.Sent > 0 {
		share = float64(o.Delivered) / float64(o.Sent)
	}
	if b := o.Found.Bottleneck; o.Wrong == "" && e.Share && math.Abs(b.LostShare-(1-share)) > shareSlack {
		o.Wrong = fmt.Sprintf("%.0f %% are said to be lost, %.0f %% are", 100*b.LostShare, 100*(1-share))
	}
	switch {
	case len(o.Scenario.Traffic) > 0 && o.Sent == 0:
		o.Blunt = "no packets were sent"
	case e.Delivers.Below > 0 && share > e.Delivers.Below:
		o.Blunt = fmt.Sprintf("%.0f %% of the packets arrived, expected at most %.0f", 100*share, 100*e.Delivers.Below)
	case e.Delivers.Above > 0 && share < e.Delivers.Above:
		o.Blunt = fmt.Sprintf("%.1f %% of the packets arrived, expected at least %.1f", 100*share, 100*e.Delivers.Above)
	}
}

// disturb marks an outcome that is not right while others took the path's CPUs: there the plant may not be what limits
// the path. One that is right counts all the same.
func (o *Outcome) disturb() { o.Disturbed = !o.Right() && o.Others >= othersFloor }

// verdict is what is said of an outcome, and whether it counts: those do not that were left out, disturbed, known to be
// wrong, or played once more.
func (o *Outcome) verdict() (said string, counts bool) {
	known := o.Scenario.KnownWrong
	switch {
	case o.LeftOut != "":
		return "left out: " + o.LeftOut, false
	case o.Error != nil:
		said = "failed: " + o.Error.Error()
	case o.Disturbed:
		return fmt.Sprintf("disturbed: programs outside of the scene took %.1f CPUs", o.Others), false
	case o.Blunt != "":
		said = "no plant: " + o.Blunt
	case o.Wrong != "" && known != "":
		return "known to be wrong: " + o.Wrong + ": " + known, false
	case o.Wrong != "":
		said = "wrong: " + o.Wrong
	case known != "":
		return "right, and known_wrong says otherwise: take that away", true
	default:
		said = "right"
	}
	if o.Repeated {
		return said + "; played once more", false
	}
	return said, true
}

// PlayTwice plays a scenario, and once more where it did not come out right: on a machine that does other things too a
// plant may not have bitten. Both outcomes are told; the last one counts.
func PlayTwice(play func() Outcome) []Outcome {
	first := play()
	if first.Right() || first.LeftOut != "" || first.Error == nil && first.Blunt == "" &&
		first.Scenario.KnownWrong != "" {
		return []Outcome{first}
	}
	first.Repeated = true
	return []Outcome{first, play()}
}

// Table is planted × found, in Markdown, and how many of those that ran were right.
func Table(all []Outcome) (table string, right, ran int) {
	var b strings.Builder
	b.WriteString("| scenario | planted | expected | found first | confidence | said lost | next | sent, kpps | arrived | " +
		"|\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, o := range all {
		row := make([]string, 10)
		copy(row, []string{o.Scenario.Name, o.Scenario.Title, strings.Join(o.Scenario.Expect.Kinds, ", "), "–"})
		if o.Scenario.Expect.Healthy() {
			row[2] = "nothing"
		}
		if o.Seconds > 0 && o.Sent > 0 {
			row[7], row[8] = fmt.Sprintf("%.1f", float64(o.Sent)/o.Seconds/1e3),
				fmt.Sprintf("%.0f %%", 100*float64(o.Delivered)/float64(o.Sent))
		}
		if o.Found != nil {
			row[3] = "nothing"
			if found := o.Found.Bottleneck; found != nil {
				row[3], row[4] = fmt.Sprintf("%s (%s)", found.Kind, found.Object), fmt.Sprintf("%.2f", found.Confidence)
				row[5] = fmt.Sprintf("%.0f %%", 100*found.LostShare)
			}
			if next := o.Found.Next; next != nil {
				row[6] = string(next.Kind)
			}
		}
		said, counts := o.verdict()
		row[9] = said
		if counts {
			ran++
			if o.Right() && o.Scenario.KnownWrong == "" {
				right++
			}
		}
		for i := range row {
			row[i] = strings.ReplaceAll(strings.Join(strings.Fields(row[i]), " "), "|", "/")
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String(), right, ran
}
