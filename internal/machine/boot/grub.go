package boot

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// grubMenu is the parsed content of a grub.cfg.
type grubMenu struct {
	entries   []grubEntry
	fallback  string            // the value of "default" when next_entry is not set
	variables map[string]string // of lines "set NAME=VALUE" outside of entries
}

// grubEntry is one menuentry. ids, titles and index have one element for each submenu around it and one for itself.
type grubEntry struct {
	ids, titles []string
	index       []int
	linux, args string
}

// maxBlocks is how deep blocks of a grub.cfg may be nested; what follows is not read. An entry keeps the names of all
// menus around it, and the text may come from a guest.
const maxBlocks = 64

// parseGrub reads a generated grub.cfg: menuentry and submenu blocks and the linux line in each (GRUB manual,
// "Shell-like scripting"). It is no interpreter: it reads both branches of an if.
func parseGrub(text string) grubMenu {
	menu := grubMenu{variables: map[string]string{}}
	type block struct {
		kind  string // menuentry, submenu or anything else with braces
		id    string
		title string
		index int
		next  int // index of the next entry inside
	}
	stack := []block{{kind: "submenu"}}
	menus := func() *block { // the innermost menu
		for i := len(stack) - 1; ; i-- {
			if stack[i].kind == "submenu" {
				return &stack[i]
			}
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := grubWords(line)
		if len(words) == 0 {
			continue
		}
		if len(stack) > maxBlocks {
			break
		}
		switch first := words[0]; {
		case (first == "menuentry" || first == "submenu") && strings.HasSuffix(line, "{") && len(words) > 1:
			around := menus()
			b := block{kind: first, title: words[1], id: grubID(words), index: around.next}
			around.next++
			stack = append(stack, b)
			if first == "menuentry" {
				e := grubEntry{}
				for _, b := range stack[1:] {
					if b.kind == "menuentry" || b.kind == "submenu" {
						e.ids, e.titles, e.index = append(e.ids, b.id), append(e.titles, b.title),
							append(e.index, b.index)
					}
				}
				menu.entries = append(menu.entries, e)
			}
		case strings.HasSuffix(line, "{"):
			stack = append(stack, block{kind: "other"})
		case first == "}":
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
		case slices.Contains([]string{"linux", "linux16", "linuxefi"}, first):
			if stack[len(stack)-1].kind == "menuentry" && len(words) > 1 {
				e := &menu.entries[len(menu.entries)-1]
				rest := strings.TrimLeft(line[len(first):], " \t")
				e.linux, e.args, _ = strings.Cut(rest, " ")
				if file, args, tab := strings.Cut(rest, "\t"); tab && len(file) < len(e.linux) {
					e.linux, e.args = file, args
				}
			}
		case first == "set" && len(words) > 1 && stack[len(stack)-1].kind != "menuentry":
			name, value, _ := strings.Cut(words[1], "=")
			if name != "default" {
				menu.variables[name] = value
			} else if !strings.Contains(value, "next_entry") {
				menu.fallback = value
			}
		}
	}
	return menu
}

// grubWords splits a line as GRUB does: quotes of both kinds join words and are removed.
func grubWords(line string) []string {
	var words []string
	var word strings.Builder
	begun := false
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			word.WriteByte(c)
		case c == quote && quote != 0:
			quote = 0
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			begun = true
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		case c == '#' && !begun:
			return words
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// grubID returns the ID in the words of a menuentry line, else its title.
func grubID(words []string) string {
	for i, word := range words[:len(words)-1] {
		if word == "$menuentry_id_option" || word == "${menuentry_id_option}" || word == "--id" {
			return words[i+1]
		}
		if id, found := strings.CutPrefix(word, "--id="); found {
			return id
		}
	}
	return words[1]
}

// parseEnvironment reads a GRUB environment block (grubenv): lines NAME=VALUE, special characters escaped with a
// backslash, padded with number signs.
func parseEnvironment(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if name, value, found := strings.Cut(line, "="); found {
			values[name] = strings.ReplaceAll(strings.ReplaceAll(value, `\\`, "\x00"), `\`, "")
			values[name] = strings.ReplaceAll(values[name], "\x00", `\`)
		}
	}
	return values
}

var variable = regexp.MustCompile(`\$(\w+|\{\w+\})`)

// expand replaces a boot loader's variables by their values; unknown variables are empty.
func expand(text string, known ...map[string]string) string {
	for range 4 { // variables in variables
		before := text
		text = variable.ReplaceAllStringFunc(text, func(name string) string {
			name = strings.Trim(name, "${}")
			for _, values := range known {
				if value, found := values[name]; found {
					return value
				}
			}
			return ""
		})
		if text == before || len(text) > 1<<16 {
			break
		}
	}
	return text
}

// readGrub reads GRUB's menu and the entry that is booted next.
func readGrub(m *tree.Tree, config, text string) *loader {
	l := &loader{kind: grub, config: config, files: []string{"/" + config}, next: -1}
	menu := parseGrub(text)
	l.fallback = menu.fallback
	environment := readEnvironment(m, l)
	var kernels []int // index in menu.entries of each of l.entries
	shared := map[string]int{}
	for _, e := range menu.entries {
		shared[strings.Join(e.ids, ">")]++
	}
	for i, e := range menu.entries {
		if e.linux == "" {
			continue
		}
		title := e.titles[len(e.titles)-1]
		id := strings.Join(e.ids, ">")
		if shared[id] > 1 {
			id = strings.Join(e.titles, ">") // grubby of EL7 copies entries with their IDs
		}
		l.entries = append(l.entries, bootEntry{BootEntry: facts.BootEntry{
			ID: id, Title: title, Linux: e.linux, Version: kernelVersion(e.linux),
			Arguments: strings.TrimSpace(expand(e.args, environment, menu.variables)), Recovery: isRescue(title, id),
		}})
		kernels = append(kernels, i)
	}
	wanted := cmp.Or(environment["next_entry"], expand(menu.fallback, environment, menu.variables))
	chosen := menu.find(wanted)
	switch {
	case len(l.entries) == 0:
		l.why = "/" + config + " holds no kernel"
	case chosen < 0:
		l.why = "the default entry " + strconv.Quote(wanted) + " of /" + config + " is not one of its kernels"
	default:
		if l.next = slices.Index(kernels, chosen); l.next < 0 {
			l.why = "the default entry " + strconv.Quote(wanted) + " of /" + config + " boots no Linux kernel"
		}
	}
	return l
}

// readEnvironment reads the environment block next to grub.cfg.
func readEnvironment(m *tree.Tree, l *loader) map[string]string {
	name := path.Dir(l.config) + "/grubenv"
	text, err := m.Read(name)
	if err != nil {
		return nil
	}
	l.files = append(l.files, "/"+name)
	return parseEnvironment(text)
}

// find returns the index of the entry that a default names: numbers, titles or IDs, one for each level, separated by
// ">". If none matches, GRUB boots the first entry at the top level. It is −1 if there is none, or if the default names
// a submenu: GRUB shows that and waits.
func (menu *grubMenu) find(wanted string) int {
	if wanted == "" {
		wanted = "0"
	}
	levels := strings.Split(wanted, ">")
	best := -1
	for i, e := range menu.entries {
		if len(e.ids) < len(levels) {
			continue
		}
		all := true
		for j, level := range levels {
			n, err := strconv.Atoi(level)
			all = all && (err == nil && e.index[j] == n || level == e.ids[j] || level == e.titles[j])
		}
		if all && len(e.ids) == len(levels) {
			return i
		}
		if all && best < 0 {
			best = -2 // a submenu
		}
	}
	if best == -1 {
		for i, e := range menu.entries {
			if len(e.ids) == 1 {
				return i
			}
		}
	}
	return -1
}
