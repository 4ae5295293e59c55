package report

import (
	"strings"
	"testing"

	"mpps/docs/knobs"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/lookup"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestExplainIsThePage: mpps explain shows of each knob what its page does, and both show all of the definition.
func TestExplainIsThePage(t *testing.T) {
	flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, k := range knob.Catalogue() {
		text := &Text{Width: 100}
		Knob(text, k)
		shown := flat(text.b.String())
		page := flat(strings.ReplaceAll(knobs.Page(k.ID), "`", ""))
		doc := k.Doc()
		parts := append([]string{k.ID, k.Title, k.Stage.String(), string(k.Risk), doc.Want, doc.Why, doc.Cost,
			doc.Verify}, doc.Traps...)
		parts = append(parts, k.After...)
		for _, s := range doc.Sources {
			parts = append(parts, s.Fact+": "+s.Where)
		}
		for _, v := range k.Values() {
			parts = append(parts, v.Address)
		}
		for _, tier := range goal.Tiers() {
			if k.AppliesTo(tier) {
				parts = append(parts, string(tier))
			}
		}
		for _, part := range parts {
			must.Hold(t, strings.Contains(shown, flat(part)), "mpps explain %s does not show %q", k.ID, part)
			must.Hold(t, strings.Contains(page, flat(part)), "the page of %s does not hold %q", k.ID, part)
		}
	}
}

// TestKnobsInPathOrder: the list and the index name all knobs, in the order of the catalogue.
func TestKnobsInPathOrder(t *testing.T) {
	text := &Text{Width: 80}
	Knobs(text, knob.Catalogue())
	for name, list := range map[string]string{"list": text.b.String(), "index": knobs.Page("README")} {
		last := -1
		for _, k := range knob.Catalogue() {
			at := strings.Index(list, map[string]string{"list": "  " + k.ID + " ", "index": "[" + k.ID + "]("}[name])
			must.Hold(t, at > last, "%s: %s is missing, or not in path order", name, k.ID)
			last = at
		}
		for line := range strings.Lines(list) {
			if name == "list" && len([]rune(strings.TrimRight(line, "\n"))) > 80 {
				t.Errorf("longer than 80 columns: %q", line)
			}
		}
	}
}

// TestHitsInChinese: advice is found with its title and answer in Chinese.
func TestHitsInChinese(t *testing.T) {
	text := &Text{Width: 200, Chinese: true}
	Hits(text, lookup.Find("jumbo frames"))
	title, answer := lookup.EntryOf("advice.mtu").Chinese()
	must.Hold(t, strings.Contains(text.b.String(), title), "%s", text.b.String())
	must.Hold(t, strings.Contains(text.b.String(), answer[:30]), "%s", text.b.String())
}

func TestKnobInChinese(t *testing.T) {
	text := &Text{Width: 80, Chinese: true}
	Knob(text, knob.Find("nic.ring.rx"))
	Knobs(text, knob.Catalogue())
	must.Contain(t, text.b.String(), "nic.ring.rx  网卡每个队列的接收描述符数\n", "wanted  有丢包计数增长时加倍",
		"why     网卡的每个队列有一个描述符环", "\n  boot.aspm           PCIe 链路不休眠\n")
	must.Fit(t, text.b.String(), 80, Visible)
}

func TestChinese(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{}, false},
		{map[string]string{"LANG": "zh_CN.UTF-8"}, true},
		{map[string]string{"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, true},
	} {
		must.Equal(t, chinese(func(name string) string { return c.env[name] }), c.want, "%v", c.env)
	}
}
