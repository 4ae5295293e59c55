package queues

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/advise/queuepath"
	"mpps/internal/golden"
	"mpps/internal/must"
	"mpps/internal/report"
)

// figureFile is the drawing of docs/queue-path.md.
const figureFile = "../../../docs/queue-path.svg"

// figureStyle colours the drawing as the page does; a picture in a document cannot take the page's.
const figureStyle = `svg{font:11.5px system-ui,sans-serif}.card{fill:#fff}text{fill:#1b1d21}.tick{fill:#5b6069;font-size:10.5px}.tick.bad{fill:#b3400a}` +
	`.strong{font-weight:650}.title{font-size:15px;font-weight:650}.queue{fill:#5b6069}.badqueue{fill:#b3400a}.idlequeue{fill:none;stroke:#5b6069;stroke-dasharray:2 2}` +
	`.flow{fill-opacity:.4}.s0{fill:#d55e00}.s1{fill:#0072b2}@media (prefers-color-scheme:dark){.card{fill:#1c1f25}text{fill:#eceae5}.tick{fill:#a2a8b3}` +
	`.tick.bad{fill:#ff9a5c}.queue{fill:#a2a8b3}.badqueue{fill:#ff9a5c}.idlequeue{stroke:#a2a8b3}.s0{fill:#ff8a3d}.s1{fill:#56b4e9}.flow{fill-opacity:.55}}`

func px(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// figure draws paths one below the other.
func figure(titles []string, paths []*queuepath.Path) string {
	var b strings.Builder
	y := 10.0
	for i, p := range paths {
		d := flowOf(p, queuepath.Out, false)
		fmt.Fprintf(&b, `<text class="title" x="12" y="%s">%s</text>`, px(y+16), titles[i])
		y += 30
		drawn := strings.Replace(string(d.svg(titles[i])), "<svg ",
			fmt.Sprintf(`<svg x="12" y="%s" width="%s" height="%s" `, px(y), px(d.width), px(d.height)), 1)
		b.WriteString(drawn)
		y += d.height + 18
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 %s"><style>%s</style><rect class="card" width="1120" height="%s" rx="12"/>%s</svg>`+"\n", px(y), figureStyle, px(y), b.String())
}

// TestFigure compares the document's drawing with what is drawn of the same paths now. MPPS_UPDATE=1 writes it.
func TestFigure(t *testing.T) {
	apart := queueScene(2, 4, 8, true, 1, func(g, q, _ int) int { return 4*g + q })
	must.Need(t, len(apart.Faults) <= 0 && len(mixed().Faults) != 0,
		"the paths do not show what the document says of them")
	text := figure([]string{"Before: one queue in the middle, and a hash behind it",
		"After: the number of the queue is carried past it"}, []*queuepath.Path{mixed(), apart})
	golden.File(t, figureFile, text)
}

// TestDocumentedDrawing: the document's text drawing is what is drawn of the same path now, line by line.
func TestDocumentedDrawing(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/queue-path.md"))(t)
	_, block, found := strings.Cut(string(text), "```text\n")
	block, _, closed := strings.Cut(block, "```")
	if drawn := report.Draw(80, func(t *report.Text) { Text(t, mixed()) }); !found || !closed ||
		!strings.HasPrefix(drawn, block) {
		t.Errorf("the document shows\n%s\ndrawn is\n%s", block, drawn)
	}
}
