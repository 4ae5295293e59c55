package lab

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The lab has no GRUB: this code reads the menu that Debian's grub-mkconfig writes, and nothing else, to find what GRUB
// would boot. It shares no code with the product, whose reader of the same file is under test.

var (
	grubBlock = regexp.MustCompile(`^\s*(menuentry|submenu) '([^']*)' .*\$menuentry_id_option '([^']*)' \{$`)
	grubSet   = regexp.MustCompile(`^\s*set default="(.*)"$`)
)

// grubDefault returns the kernel that a grub.cfg boots by default, and its arguments. environment is the content of
// grubenv.
func grubDefault(config, environment string) (kernel string, args []string, err error) {
	saved := ""
	for line := range strings.Lines(environment) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "saved_entry":
			saved = value
		case name == "next_entry" && value != "":
			return "", nil, fmt.Errorf("next_entry=%s: a menu entry that is booted once is not supported", value)
		}
	}
	wanted := ""
	for line := range strings.Lines(config) {
		if m := grubSet.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && m[1] != "${next_entry}" {
			wanted = strings.ReplaceAll(m[1], "${saved_entry}", saved)
		}
	}
	wanted = cmp.Or(wanted, "0")
	levels := strings.Split(wanted, ">")
	type menu struct {
		entry  bool
		chosen bool // this entry or menu, and all those around it, are those of levels
		next   int  // number of the next entry inside
	}
	stack := []menu{{chosen: true}}
	for line := range strings.Lines(config) {
		line = strings.TrimRight(line, "\n")
		words := strings.Fields(line)
		top := &stack[len(stack)-1]
		switch m := grubBlock.FindStringSubmatch(line); {
		case m != nil:
			depth := len(stack) - 1
			chosen := top.chosen && depth < len(levels) && slices.Contains([]string{strconv.Itoa(top.next), m[2], m[3]},
				levels[depth])
			top.next++
			stack = append(stack, menu{entry: m[1] == "menuentry", chosen: chosen &&
				(m[1] == "submenu" || depth == len(levels)-1)})
		case strings.HasSuffix(line, "{"):
			stack = append(stack, menu{})
		case strings.TrimSpace(line) == "}" && len(stack) > 1:
			stack = stack[:len(stack)-1]
		case top.entry && top.chosen && len(words) > 1 && words[0] == "linux":
			return words[1], words[2:], nil
		}
	}
	return "", nil, fmt.Errorf("found no kernel at the default entry %q", wanted)
}
