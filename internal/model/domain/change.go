package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The functions below read flag values into changes. They report what is wrong with the text alone; Apply reports what
// is wrong with it for a document.

// textError is an error in the text of a flag.
type textError struct{ found, expected string }

func (e *textError) Error() string {
	return fmt.Sprintf("found %q, expected %s", clip(e.found), e.expected)
}

// PinChanges reads "0=2,1=3", "0-3=8-11" (each thread on all of these CPUs), "2-5" (the first thread on CPU 2, the next
// on 3 and so on: as many CPUs as threads) or "off". what is vcpupin or iothreadpin.
func (d *Doc) PinChanges(what, text string) ([]Change, error) {
	const form = "THREAD=CPUS such as 0=2,1=3"
	threads := d.Threads(what)
	switch {
	case text == "off":
		var all []Change
		for _, v := range d.Values() {
			if strings.HasPrefix(v.Path, what+"/") {
				all = append(all, Change{Path: v.Path, Off: true})
			}
		}
		return all, nil
	case !strings.Contains(text, "="):
		set, err := ParseSet(text)
		if err != nil {
			return nil, &textError{text, form}
		}
		if len(set) != len(threads) {
			return nil, &textError{text, fmt.Sprintf("as many CPUs as there are threads (%d), or %s", len(threads),
				form)}
		}
		var all []Change
		for i, cpu := range set {
			all = append(all, Change{Path: what + "/" + strconv.Itoa(threads[i]), Value: strconv.Itoa(cpu)})
		}
		return all, nil
	}
	return sound(perThread(what, text, form))
}

// perThread reads "0-1=VALUE,2=VALUE" into one change per thread.
func perThread(what, text, form string) ([]Change, error) {
	pairs, err := pairs(text, form)
	if err != nil {
		return nil, err
	}
	var all []Change
	for _, p := range pairs {
		threads, err := ParseSet(p[0])
		if err != nil {
			return nil, &textError{p[0], "a thread's number, or several such as 0-3"}
		}
		for _, t := range threads {
			all = append(all, Change{Path: what + "/" + strconv.Itoa(t), Value: p[1], Off: p[1] == "off"})
		}
	}
	return all, nil
}

// pairs splits "0=2,4,1=3" at the commas before a key: 0 has 2,4 and 1 has 3.
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
			return nil, &textError{text, form}
		}
	}
	return all, nil
}

// NUMAChanges reads "strict:0", "0" or "off" for all memory, and "0=strict:0,1=strict:1" per guest cell.
func NUMAChanges(text string) ([]Change, error) {
	if !strings.Contains(text, "=") {
		return sound([]Change{{Path: "numatune/memory", Value: text, Off: text == "off"}}, nil)
	}
	return sound(perThread("numatune/memnode", text, "CELL=MODE:NODES such as 0=strict:0,1=strict:1"))
}

// PageChanges reads "1G", "2M", "1GiB@0 2MiB@1", "on" (the host's default size) or "off".
func PageChanges(text string) ([]Change, error) {
	const path = "memoryBacking/hugepages"
	switch text {
	case "off":
		return []Change{{Path: path, Off: true}}, nil
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
	return sound([]Change{{Path: path, Value: strings.Join(words, " ")}}, nil)
}

// CellChanges reads the guest's NUMA cells: "0-3:4GiB;4-7:4GiB", or separated by spaces.
func CellChanges(text string) ([]Change, error) {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ';' }), " ")
	return sound([]Change{{Path: "cpu/numa/cells", Value: text}}, nil)
}

// SchedChanges reads "fifo:1" for every thread, "0-3=fifo:1,4=batch" for some, or "off". what is vcpusched or
// iothreadsched. Each thread gets its own element, as libvirt writes them. Threads that share an element keep it
// if all of them get the same policy.
func (d *Doc) SchedChanges(what, text string) ([]Change, error) {
	if !strings.Contains(text, "=") {
		text = FormatSet(d.Threads(what)) + "=" + text
	}
	all, err := sound(perThread(what, text, "THREADS=POLICY such as 0-3=fifo:1"))
	if err != nil {
		return nil, err
	}
	for _, e := range d.root.first("cputune").all(what) {
		for i := range rules {
			if s := rules[i].last(); s.name == what {
				all = mergeGroup(all, what, s.keyOf(e))
			}
		}
	}
	return all, nil
}

// mergeGroup replaces the changes for the threads of a group by one if they all want the same.
func mergeGroup(all []Change, what, group string) []Change {
	set, err := ParseSet(group)
	if err != nil || len(set) < 2 {
		return all
	}
	is := func(w Change) bool {
		n, err := strconv.Atoi(strings.TrimPrefix(w.Path, what+"/"))
		return err == nil && slices.Contains(set, n)
	}
	var members []Change
	for _, c := range all {
		if is(c) {
			members = append(members, c)
		}
	}
	other := func(c Change) bool { return c.Value != members[0].Value }
	if len(members) < len(set) || slices.ContainsFunc(members, other) {
		return all
	}
	one := members[0]
	one.Path = what + "/" + group
	return append(slices.DeleteFunc(all, is), one)
}

// hypervDefaults are the enlightenments that help every Windows guest, ordered by what they require (QEMU
// docs/system/i386/hyperv.rst).
var hypervDefaults = []Change{
	{Path: "clock/timer/hypervclock.present", Value: "yes"},
	{Path: "features/hyperv/relaxed.state", Value: "on"}, {Path: "features/hyperv/vapic.state", Value: "on"},
	{Path: "features/hyperv/spinlocks.retries", Value: "8191"}, {Path: "features/hyperv/vpindex.state", Value: "on"},
	{Path: "features/hyperv/runtime.state", Value: "on"}, {Path: "features/hyperv/synic.state", Value: "on"},
	{Path: "features/hyperv/stimer.state", Value: "on"}, {Path: "features/hyperv/frequencies.state", Value: "on"},
}

// HyperVChanges reads "on" (hypervDefaults), "off", "passthrough", or a list such as "vapic,synic=off,spinlocks=4096".
func (d *Doc) HyperVChanges(text string) ([]Change, error) {
	switch text {
	case "on":
		return slices.Clone(hypervDefaults), nil
	case "passthrough":
		return []Change{{Path: "features/hyperv.mode", Value: text}}, nil
	case "off":
		all := []Change{{Path: "clock/timer/hypervclock.present", Off: true}}
		for _, e := range d.root.first("features", "hyperv").elements() {
			if slices.Contains(hypervNames, e.name) {
				all = append(all, Change{Path: "features/hyperv/" + e.name + ".state", Value: "off"})
			}
		}
		return all, nil
	}
	var all []Change
	for _, word := range strings.Split(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(word), "=")
		w := Change{Path: "features/hyperv/" + name + ".state", Value: "on"}
		switch {
		case found && (value == "on" || value == "off"):
			w.Value = value
		case found && name == "spinlocks":
			w = Change{Path: "features/hyperv/spinlocks.retries", Value: value}
		case found && name == "vendor_id":
			w = Change{Path: "features/hyperv/vendor_id.value", Value: value}
		case found:
			return nil, &textError{word, name + "=on or " + name + "=off"}
		case name == "spinlocks":
			w = Change{Path: "features/hyperv/spinlocks.retries", Value: "8191"}
		}
		all = append(all, w)
	}
	return sound(all, nil)
}

// validated returns the changes if some document could take them.
func sound(all []Change, err error) ([]Change, error) {
	if err == nil {
		err = CheckChanges(all...)
	}
	return all, err
}

// CheckChanges refuses changes that no document could take.
func CheckChanges(all ...Change) error {
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

// Threads returns the numbers of a domain's vCPUs ("vcpusched") or I/O threads ("iothreadsched").
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
