package knob

import (
	"strings"
	"unicode/utf8"

	"mpps/docs/knobs"
)

// Brief is what a knob's page says first, in another language than English.
type Brief struct {
	Title, Want, Why string
}

// firstCJK is the first character of East Asian scripts and their punctuation (Unicode, CJK Radicals Supplement).
const firstCJK = '\u2e80'

// wantMark begins the paragraph of a Chinese section that says what the value should be.
const wantMark = "应为："

// Chinese returns title, value and reason of a knob in Chinese, and whether there are such: docs/knobs/zh-CN has a
// section "## ID TITLE" for each knob, a paragraph that begins with wantMark and one that says why.
func (k *Knob) Chinese() (Brief, bool) {
	_, text, found := strings.Cut(knobs.Chinese(k.ID), "\n## "+k.ID+" ")
	if !found {
		return Brief{}, false
	}
	text, _, _ = strings.Cut(text, "\n## ")
	parts := strings.Split(strings.TrimSpace(text), "\n\n")
	if len(parts) != 3 {
		return Brief{}, false
	}
	want, found := strings.CutPrefix(joinChinese(parts[1]), wantMark)
	return Brief{Title: parts[0], Want: want, Why: joinChinese(parts[2])}, found
}

// joinChinese returns a paragraph as one line, without the marks of `code`. Between lines of which one ends, or the
// next begins, with a wide character there is no space.
func joinChinese(paragraph string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(paragraph, "`", "")) {
		line = strings.TrimSuffix(line, "\n")
		last, _ := utf8.DecodeLastRuneInString(b.String())
		first, _ := utf8.DecodeRuneInString(line)
		if b.Len() > 0 && last < firstCJK && first < firstCJK {
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}
