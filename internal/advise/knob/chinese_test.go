package knob

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"mpps/internal/must"
)

// chineseIDs are the knobs that docs/knobs/zh-CN has a section for, in the order of its files.
func chineseIDs(t *testing.T) []string {
	t.Helper()
	dir := os.DirFS("../../../docs/knobs/zh-CN")
	files := must.Get(fs.Glob(dir, "*.md"))(t)
	heading := regexp.MustCompile(`(?m)^## (\S+) `)
	var ids []string
	for _, file := range files {
		text := must.Get(fs.ReadFile(dir, file))(t)
		for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
			if group, _, _ := strings.Cut(m[1], "."); group+".md" != file {
				t.Errorf("%s is in %s", m[1], file)
			}
			ids = append(ids, m[1])
		}
	}
	return ids
}

func TestChinese(t *testing.T) {
	ids := chineseIDs(t)
	for _, id := range ids {
		must.Hold(t, Find(id) != nil && slices.Index(ids, id) == len(ids)-1-slices.Index(reversed(ids), id),
			"docs/knobs/zh-CN: %s is no knob, or there twice", id)
	}
	for _, k := range Catalogue() {
		brief, found := k.Chinese()
		if !found {
			t.Errorf("%s: no section in docs/knobs/zh-CN", k.ID)
			continue
		}
		for what, text := range map[string]string{"title": brief.Title, "why": brief.Why} {
			if !strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
				t.Errorf("%s: its %s is not in Chinese: %q", k.ID, what, text)
			}
		}
		if brief.Want == "" || strings.ContainsAny(brief.Title+brief.Want+brief.Why, "\n`") {
			t.Errorf("%s: %+v", k.ID, brief)
		}
	}
}

func reversed(ids []string) []string {
	all := slices.Clone(ids)
	slices.Reverse(all)
	return all
}

// A value and its reason have the same figures in both languages: a translation must not fall behind.
func TestChineseFigures(t *testing.T) {
	figure := regexp.MustCompile(`\d[\d,.]*\d|\d`)
	for _, k := range Catalogue() {
		brief, _ := k.Chinese()
		have := figure.FindAllString(brief.Want+" "+brief.Why, -1)
		for _, f := range figure.FindAllString(k.Doc().Want+" "+k.Doc().Why, -1) {
			if !slices.Contains(have, f) {
				t.Errorf("%s: %s is not in %q, %q", k.ID, f, brief.Want, brief.Why)
			}
		}
	}
}

func TestJoinChinese(t *testing.T) {
	for in, want := range map[string]string{
		"一二，\n三":     "一二，三",
		"two\nwords": "two words",
		"ethtool\n的": "ethtool的",
		"`mpps` 一":   "mpps 一",
	} {
		must.Equal(t, joinChinese(in), want, "%q", in)
	}
}
