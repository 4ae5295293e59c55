package report

import "unicode/utf8"

// label is a small text that stands at a point of a drawing.
type label struct {
	text, anchor string
	x, y         float64 // of its base line
}

// labels are the small texts of a drawing, of which none may cover another.
type labels []label

// Sizes of a small text: of a character, and of a line.
const (
	charWidth  = 5.4
	lineHeight = 10.5
)

func (l *labels) add(text, anchor string, x, y float64) {
	*l = append(*l, label{text, anchor, x, y})
}

// span is from where to where a text reaches.
func (l label) span() (from, to float64) {
	width := charWidth * float64(utf8.RuneCountInString(l.text))
	switch l.anchor {
	case "middle":
		return l.x - width/2, l.x + width/2
	case "end":
		return l.x - width, l.x
	}
	return l.x, l.x + width
}

// covers tells whether two texts overlap.
func (l label) covers(other label) bool {
	from, to := l.span()
	low, high := other.span()
	return from < high && low < to && l.y-lineHeight < other.y && other.y-lineHeight < l.y
}

// placed are the texts where none covers another, as near to their own height as there is room: above first, then below.
func (l labels) placed(top, bottom, left, right float64) labels {
	var done labels
	free := func(at label) bool {
		for _, other := range done {
			if at.covers(other) {
				return false
			}
		}
		return at.y >= top && at.y <= bottom
	}
	for _, at := range l {
		if from, to := at.span(); to > right {
			at.x -= to - right
		} else if from < left {
			at.x += left - from
		}
		own := at.y
		for n := 0; !free(at) && lineHeight*float64(n) < bottom-top; n++ {
			if at.y = own - lineHeight*float64(n); !free(at) {
				at.y = own + lineHeight*float64(n+2) // below what it names
			}
		}
		done = append(done, at)
	}
	return done
}

// draw writes the texts.
func (l labels) draw(d *drawing, top, bottom, left, right float64) {
	for _, at := range l.placed(top, bottom, left, right) {
		d.text("small", at.anchor, at.x, at.y, at.text)
	}
}
