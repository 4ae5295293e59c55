package layers

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/must"
)

// wings are the folders below internal in the order of the flow; the others of a wing's name are its packages.
var wings = []string{"model", "advise", "machine", "change", "measure", "ops", "report", "lab"}

// wingOf returns the wing of a package, or "" for what belongs to none.
func wingOf(pkg string) string {
	wing, _, _ := strings.Cut(pkg, "/")
	if slices.Contains(wings, wing) {
		return wing
	}
	return ""
}

// TestDrawing draws docs/architecture.svg from the table of imports: a band for each wing with its packages, the last
// wing of the flow on top, and an arrow for each wing that imports another.
func TestDrawing(t *testing.T) {
	packages, arrows := map[string][]string{}, map[[2]string]bool{}
	for pkg, allowed := range imports {
		from := wingOf(pkg)
		if from == "" {
			continue
		}
		packages[from] = append(packages[from], pkg)
		for _, other := range allowed {
			if to := wingOf(other); to != "" && to != from {
				arrows[[2]string{from, to}] = true
			}
		}
	}
	golden.File(t, "../../docs/architecture.svg", draw(packages, arrows))
}

// Sizes in pixels. A character of the text is 7 wide.
const (
	width, left, right = 940, 110, 700
	chip, gap, pad     = 24, 8, 12
)

func draw(packages map[string][]string, arrows map[[2]string]bool) string {
	var bands, lines strings.Builder
	middle, y := map[string]int{}, pad
	for _, wing := range slices.Backward(wings) {
		top := y
		x := left
		y += pad
		slices.Sort(packages[wing])
		for _, pkg := range packages[wing] {
			name := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg, wing), "/"), pkg)
			w := 7*len(name) + 14
			if x+w > right {
				x, y = left, y+chip+gap
			}
			fmt.Fprintf(&bands, `<rect class="package" x="%d" y="%d" width="%d" height="%d" rx="4"/>`+
				`<text x="%d" y="%d">%s</text>`+"\n", x, y, w, chip, x+7, y+16, html.EscapeString(name))
			x += w + gap
		}
		y += chip + pad
		middle[wing] = (top + y) / 2
		fmt.Fprintf(&bands, `<rect class="wing" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+
			`<text class="name" x="%d" y="%d">%s</text>`+"\n", pad, top, right-pad+gap, y-top, 2*pad, middle[wing]+5,
			wing)
		y += pad
	}
	starts, ends := map[string]int{}, map[string]int{}
	sorted := slices.SortedFunc(maps.Keys(arrows), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, a := range sorted {
		from, to := middle[a[0]]-10+5*starts[a[0]], middle[a[1]]-10+5*ends[a[1]]
		starts[a[0]]++
		ends[a[1]]++
		bend := right + 20 + 30*distance(a)
		fmt.Fprintf(&lines, `<path d="M%d %dC%d %d %d %d %d %d"/>`+"\n", right+gap, from, bend, from, bend, to,
			right+gap+8, to)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="monospace" font-size="12">
<title>The wings of mpps and which of them import which</title>
<style>
rect.wing{fill:none;stroke:#888}rect.package{fill:#4a7ab5;fill-opacity:.15;stroke:#4a7ab5}
text{fill:#555}text.name{font-weight:bold;font-size:14px}path{fill:none;stroke:#b5654a;marker-end:url(#tip)}
</style>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"
 style="fill:#b5654a;stroke:none;marker-end:none"/></marker>
%s%s</svg>
`, width, y, bands.String(), lines.String())
}

// distance is how many wings lie between the two ends of an arrow, and one.
func distance(arrow [2]string) int {
	d := slices.Index(wings, arrow[0]) - slices.Index(wings, arrow[1])
	return max(d, -d)
}

// TestFlow: a wing imports none that comes after it in the flow, but for what is listed here.
func TestFlow(t *testing.T) {
	upward := []string{"ops/accept report", "ops/accept report/founding"} // the page of acceptance is kept as a file
	var found []string
	for pkg, allowed := range imports {
		for _, other := range allowed {
			from, to := slices.Index(wings, wingOf(pkg)), slices.Index(wings, wingOf(other))
			if from >= 0 && to > from {
				found = append(found, pkg+" "+other)
			}
		}
	}
	slices.Sort(found)
	must.Hold(t, slices.Equal(found, upward),
		"imports against the flow:\n%s\nexpected\n%s", strings.Join(found, "\n"), strings.Join(upward, "\n"))
}
