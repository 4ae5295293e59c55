package boot

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// grubMenu is what a grub.cfg says.
type grubMenu struct {
	entries   []grubEntry
	fallback  string            // what default is set to where no entry was asked for once
	variables map[string]string // of lines set NAME=VALUE outside of entries
}

// grubEntry is one menuentry. A path has one element for each submenu around it and one for itself.
type grubEntry struct {
	ids, titles []string
	index       []int
	linux, args string
}

// parseGrub reads a generated grub.cfg: menuentry and submenu blocks, the linux line in each (GRUB manual, "Shell-like
// scripting"). It is no interpreter: both branches of an if are read.
func parseGrub(text string) grubMenu {
	menu := grubMenu{variables: map[string]string{}}
	type block struct {
		kind  string // menuentry, submenu or anything else with braces
		id    string
		title string
		index int
		next  int // number of the next entry inside
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

// grubWords splits a line as GRUB does: quotes of both kinds hold words together and are taken away.
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

// grubID is the ID in the words of a menuentry line, its title where it has none.
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

// parseEnvironment reads a GRUB environment block (grubenv): lines NAME=VALUE, a backslash in front of special
// characters, filled up with number signs.
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

// expand fills in a boot loader's variables; words of variables that are not known are empty.
func expand(text string, known ...map[string]string) string {
	for range 4 { // variables in variables
		if !strings.Contains(text, "$") {
			return text
		}
		var b strings.Builder
		for i := 0; i < len(text); i++ {
			if text[i] != '$' {
				b.WriteByte(text[i])
				continue
			}
			braced := i+1 < len(text) && text[i+1] == '{'
			from := i + 1
			if braced {
				from++
			}
			end := from
			for end < len(text) && (text[end] == '_' || text[end] >= '0' && text[end] <= '9' || text[end] >= 'a' &&
				text[end] <= 'z' || text[end] >= 'A' && text[end] <= 'Z') {
				end++
			}
			if end == from || braced && (end == len(text) || text[end] != '}') {
				b.WriteByte(text[i])
				continue
			}
			for _, values := range known {
				if value, found := values[text[from:end]]; found {
					b.WriteString(value)
					break
				}
			}
			i = end - 1
			if braced {
				i = end
			}
		}
		if b.String() == text || b.Len() > 1<<16 {
			return b.String()
		}
		text = b.String()
	}
	return text
}

// readGrub reads GRUB's menu and finds the entry that is booted next.
func readGrub(m *tree.Tree, config, text string) *loader {
	l := &loader{kind: grub, config: config, files: []string{"/" + config}, next: -1}
	menu := parseGrub(text)
	l.fallback = menu.fallback
	environment := environment(m, l)
	var kernels []int // place in menu.entries of each of l.entries
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
			Arguments: strings.TrimSpace(expand(e.args, environment, menu.variables)), Recovery: rescue(title, id),
		}})
		kernels = append(kernels, i)
	}
	wanted := expand(menu.fallback, environment, menu.variables)
	if once := environment["next_entry"]; once != "" {
		wanted = once
	}
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

// environment reads the environment block beside a grub.cfg.
func environment(m *tree.Tree, l *loader) map[string]string {
	name := path.Dir(l.config) + "/grubenv"
	text, err := m.Read(name)
	if err != nil {
		return nil
	}
	l.files = append(l.files, "/"+name)
	return parseEnvironment(text)
}

// find is the entry that a default names: numbers, titles or IDs, one for each level, separated by ">". GRUB takes the
// first entry where it finds none, and the first of a submenu where no more is said.
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
			best = -2 // a submenu: GRUB shows it and waits
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
