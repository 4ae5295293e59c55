package search

// purpose is why a trial is done.
type purpose struct {
	aim  aim
	goal string // of bounds and final trials, empty where it is for all
}

// aim is what a trial is to show.
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

// String is the purpose as results show it.
func (p purpose) String() string {
	if p.goal != "" {
		return p.goal + " " + aimNames[p.aim]
	}
	return aimNames[p.aim]
}

// final reports whether a trial proves a bound.
func (p purpose) final() bool { return p.aim == finalTrial || p.aim == finalAtLimit }
