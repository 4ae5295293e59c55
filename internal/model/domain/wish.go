package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Wishes read what people write behind a flag into wishes. What is wrong with the text alone is an error of the command
// line; what is wrong with it for a document is found by Carry.

// wishError is an error in what somebody wrote for a value.
type wishError struct{ found, expected string }

func (e *wishError) Error() string {
	return fmt.Sprintf("found %q, expected %s", clip(e.found), e.expected)
}

// WishPins reads "0=2,1=3", "0-3=8-11" (each of them on all of these CPUs), "2-5" (the first thread on CPU 2, the next
// on 3 …: as many CPUs as there are threads) or "off". what is vcpupin or iothreadpin.
func (d *Doc) WishPins(what, text string) ([]Wish, error) {
	const form = "THREAD=CPUS such as 0=2,1=3"
	threads := d.Threads(what)
	switch {
	case text == "off":
		var all []Wish
		for _, v := range d.Values() {
			if strings.HasPrefix(v.Path, what+"/") {
				all = append(all, Wish{Path: v.Path, Off: true})
			}
		}
		return all, nil
	case !strings.Contains(text, "="):
		set, err := ParseSet(text)
		if err != nil {
			return nil, &wishError{text, form}
		}
		if len(set) != len(threads) {
			return nil, &wishError{text, fmt.Sprintf("as many CPUs as there are threads (%d), or %s", len(threads),
				form)}
		}
		var all []Wish
		for i, cpu := range set {
			all = append(all, Wish{Path: what + "/" + strconv.Itoa(threads[i]), Value: strconv.Itoa(cpu)})
		}
		return all, nil
	}
	return sound(perThread(what, text, form))
}

// perThread reads "0-1=VALUE,2=VALUE" into a wish for each thread.
func perThread(what, text, form string) ([]Wish, error) {
	pairs, err := pairs(text, form)
	if err != nil {
		return nil, err
	}
	var all []Wish
	for _, p := range pairs {
		threads, err := ParseSet(p[0])
		if err != nil {
			return nil, &wishError{p[0], "a thread's number, or several such as 0-3"}
		}
		for _, t := range threads {
			all = append(all, Wish{Path: what + "/" + strconv.Itoa(t), Value: p[1], Off: p[1] == "off"})
		}
	}
	return all, nil
}

// pairs parts "0=2,4,1=3" at the commas behind which a key stands: 0 has 2,4 and 1 has 3.
func pairs(text, form string) ([][2]string, error) {
	var all [][2]string
	for _, word := range strings.Split(text, ",") {
		key, value, found := strings.Cut(word, "=")
		switch {
		case found && key != "" && value != "":
			all = append(all, [2]string{strings.TrimSpace(key), value})
		case !found && len(all) > 0 && word != "":
			all[len(all)-1][1] += "," + word
		default:
			return nil, &wishError{text, form}
		}
	}
	return all, nil
}

// WishNUMA reads "strict:0", "0" or "off" for all memory, and "0=strict:0,1=strict:1" for that of guest cells.
func WishNUMA(text string) ([]Wish, error) {
	if !strings.Contains(text, "=") {
		return sound([]Wish{{Path: "numatune/memory", Value: text, Off: text == "off"}}, nil)
	}
	return sound(perThread("numatune/memnode", text, "CELL=MODE:NODES such as 0=strict:0,1=strict:1"))
}

// WishPages reads "1G", "2M", "1GiB@0 2MiB@1", "on" (the host's default size) or "off".
func WishPages(text string) ([]Wish, error) {
	const path = "memoryBacking/hugepages"
	switch text {
	case "off":
		return []Wish{{Path: path, Off: true}}, nil
	case "on":
		text = "default"
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ';' })
	for i, w := range words {
		size, cells, scoped := strings.Cut(w, "@")
		if kib, ok := ParseSize(size); ok {
			size = formatKiB(kib)
		}
		if words[i] = size; scoped {
			words[i] += "@" + cells
		}
	}
	return sound([]Wish{{Path: path, Value: strings.Join(words, " ")}}, nil)
}

// WishCells reads the guest's NUMA cells, "0-3:4GiB;4-7:4GiB" or with spaces between.
func WishCells(text string) ([]Wish, error) {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ';' }), " ")
	return sound([]Wish{{Path: "cpu/numa/cells", Value: text}}, nil)
}

// WishSched reads "fifo:1" for every thread, "0-3=fifo:1,4=batch" for some, or "off". what is vcpusched or
// iothreadsched. Each thread gets an element of its own, as libvirt writes them; threads that have one together keep it
// if all are to have the same.
func (d *Doc) WishSched(what, text string) ([]Wish, error) {
	if !strings.Contains(text, "=") {
		text = FormatSet(d.Threads(what)) + "=" + text
	}
	all, err := sound(perThread(what, text, "THREADS=POLICY such as 0-3=fifo:1"))
	if err != nil {
		return nil, err
	}
	for _, e := range d.root.first("cputune").all(what) {
		for i := range rules {
			if s := &rules[i].steps[len(rules[i].steps)-1]; s.name == what {
				all = together(all, what, s.keyOf(d, e))
			}
		}
	}
	return all, nil
}

// together makes one wish of those for the threads of a group, if they all want the same.
func together(all []Wish, what, group string) []Wish {
	set, err := ParseSet(group)
	if err != nil || len(set) < 2 {
		return all
	}
	is := func(w Wish) bool {
		n, err := strconv.Atoi(strings.TrimPrefix(w.Path, what+"/"))
		return err == nil && slices.Contains(set, n)
	}
	at := slices.IndexFunc(all, is)
	if at < 0 {
		return all
	}
	one, n := all[at], 0
	for _, w := range all {
		if is(w) {
			if n++; w.Value != one.Value {
				return all
			}
		}
	}
	if n < len(set) {
		return all
	}
	one.Path = what + "/" + group
	return append(slices.DeleteFunc(all, is), one)
}

// hypervUsual are the enlightenments that every Windows guest profits of, in the order in which they need each other
// (QEMU docs/system/i386/hyperv.rst).
var hypervUsual = []Wish{
	{Path: "clock/timer/hypervclock.present", Value: "yes"},
	{Path: "features/hyperv/relaxed.state", Value: "on"}, {Path: "features/hyperv/vapic.state", Value: "on"},
	{Path: "features/hyperv/spinlocks.retries", Value: "8191"}, {Path: "features/hyperv/vpindex.state", Value: "on"},
	{Path: "features/hyperv/runtime.state", Value: "on"}, {Path: "features/hyperv/synic.state", Value: "on"},
	{Path: "features/hyperv/stimer.state", Value: "on"}, {Path: "features/hyperv/frequencies.state", Value: "on"},
}

// WishHyperV reads "on" (the usual enlightenments), "off", "passthrough", or a list such as
// "vapic,synic=off,spinlocks=4096".
func (d *Doc) WishHyperV(text string) ([]Wish, error) {
	switch text {
	case "on":
		return slices.Clone(hypervUsual), nil
	case "passthrough":
		return []Wish{{Path: "features/hyperv.mode", Value: text}}, nil
	case "off":
		all := []Wish{{Path: "clock/timer/hypervclock.present", Off: true}}
		for _, e := range d.root.first("features", "hyperv").elements() {
			if slices.Contains(hypervNames, e.name) {
				all = append(all, Wish{Path: "features/hyperv/" + e.name + ".state", Value: "off"})
			}
		}
		return all, nil
	}
	var all []Wish
	for _, word := range strings.Split(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(word), "=")
		w := Wish{Path: "features/hyperv/" + name + ".state", Value: "on"}
		switch {
		case found && (value == "on" || value == "off"):
			w.Value = value
		case found && name == "spinlocks":
			w = Wish{Path: "features/hyperv/spinlocks.retries", Value: value}
		case found && name == "vendor_id":
			w = Wish{Path: "features/hyperv/vendor_id.value", Value: value}
		case found:
			return nil, &wishError{word, name + "=on or " + name + "=off"}
		case name == "spinlocks":
			w = Wish{Path: "features/hyperv/spinlocks.retries", Value: "8191"}
		}
		all = append(all, w)
	}
	return sound(all, nil)
}

// sound gives wishes if any document could take them.
func sound(all []Wish, err error) ([]Wish, error) {
	if err == nil {
		err = checked(all)
	}
	return all, err
}

// checked refuses what no document could take.
func checked(all []Wish) error {
	for _, w := range all {
		path := strings.Replace(w.Path, "*", "0", 1)
		err := CheckPath(path)
		if !w.Off && err == nil {
			_, err = CheckValue(path, w.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Checked reports whether any document could take a wish.
func Checked(all ...Wish) error { return checked(all) }

// Threads gives the numbers of a domain's vCPUs ("vcpusched") or I/O threads ("iothreadsched").
func (d *Doc) Threads(what string) []int {
	g := d.Guest()
	from, to := 0, min(g.VCPUs.Max, maxCPU+1)
	if what == "iothreadsched" || what == "iothreadpin" {
		from, to = 1, min(g.IOThreads, maxCPU)+1
	}
	var all []int
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}
