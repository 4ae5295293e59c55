package search

// purpose is the purpose of a trial.
type purpose struct {
	aim  aim
	goal string // of bounds and final trials; empty if it serves all goals
}

// aim is what a trial should find out.
type aim int

const (
	approaching aim = iota
	highestLoad
	longer
	overload
	above
	below
	amid
	belowAll
	anyLoad // whether packets are lost at any load
	halfLoad
	oneSecond
	finalAtLimit
	finalTrial
	lowerBound
	upperBound
)

var aimNames = [...]string{
	approaching: "approach", highestLoad: "highest load", longer: "longer",
	overload: "overload", above: "above", below: "below", amid: "amid", belowAll: "below all",
	anyLoad: "loss at any load", halfLoad: "loss at half the load", oneSecond: "what a second loses",
	finalAtLimit: "final trial at the highest load", finalTrial: "final trial",
	lowerBound: "lower bound", upperBound: "upper bound",
}

// String returns the purpose as results show it.
func (p purpose) String() string {
	if p.goal != "" {
		return p.goal + " " + aimNames[p.aim]
	}
	return aimNames[p.aim]
}

// final reports whether the trial is a final trial, which proves a bound.
func (p purpose) final() bool { return p.aim == finalTrial || p.aim == finalAtLimit }
