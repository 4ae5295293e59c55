// Package irq reads /proc/interrupts and irqbalance's configuration, and reads and writes the affinity of interrupts.
package irq

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// interrupt is one numbered row of /proc/interrupts.
type interrupt struct {
	Number  int
	counts  string   // the columns of the CPUs
	Actions []string // names of the handlers; several if the line is shared
}

// ParseInterrupts reads the numbered rows of /proc/interrupts (kernel/irq/proc.c, show_interrupts): number, one count
// for each online CPU, chip, on newer kernels the hardware number and trigger, and after at least two spaces the names
// of the handlers.
func ParseInterrupts(text string) []interrupt {
	head, rest, _ := strings.Cut(text, "\n")
	cpus := len(strings.Fields(head))
	var rows []interrupt
	for line := range strings.Lines(rest) {
		label, tail, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		number, err := strconv.Atoi(strings.TrimSpace(label))
		if err != nil || number < 0 {
			continue // NMI, LOC, ERR …
		}
		end, ok := skipFields(tail, cpus)
		if !ok {
			continue
		}
		rows = append(rows, interrupt{Number: number, counts: tail[:end], Actions: handlers(tail[end:])})
	}
	return rows
}

// skipFields returns the offset after n fields of digits; false if there are fewer.
func skipFields(text string, n int) (int, bool) {
	i := 0
	for range n {
		for i < len(text) && text[i] == ' ' {
			i++
		}
		start := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		if i == start {
			return 0, false
		}
	}
	return i, true
}

// handlers returns the handler names at the end of a row. An interrupt that nobody has requested has none: its row ends
// with the chip or trigger.
func handlers(tail string) []string {
	tail = strings.TrimSpace(tail)
	at := strings.LastIndex(tail, "  ")
	if at < 0 {
		return nil
	}
	names := strings.TrimSpace(tail[at:])
	digits := strings.TrimLeft(names, "0123456789")
	if len(digits) < len(names) && (strings.HasPrefix(digits, "-edge") || strings.HasPrefix(digits, "-fasteoi") ||
		strings.HasPrefix(digits, "-level")) {
		return nil
	}
	return strings.Split(names, ", ")
}

// Count returns the row's sum over all CPUs.
func (i interrupt) Count() uint64 {
	var sum uint64
	for _, field := range strings.Fields(i.counts) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return sum
		}
		sum += n
	}
	return sum
}

// OfNICs sets the interrupts of the NICs: those that their bus device owns or, if sysfs does not list them (a recorded
// /proc/interrupts alone, a device without MSI), those whose handlers contain the device's name or PCI address.
func OfNICs(m *tree.Tree, h *facts.Host, nics []facts.NIC) {
	text, err := m.Read("proc/interrupts")
	if err != nil {
		tree.AddUnseen(h, "interrupt counts", err)
	}
	rows := ParseInterrupts(text)
	dir := m.Folder("proc/irq")
	defer dir.Close()
	for i := range nics {
		owned := ownedIRQs(m, path.Join(tree.ClassNet, nics[i].Name))
		for _, match := range matchInterrupts(&nics[i], m.BusDevice(nics[i].Name), owned, rows, sameFunction(nics, i)) {
			number := strconv.Itoa(match.Number)
			match.Affinity = ListFile(dir, number+"/smp_affinity_list")
			match.Effective = ListFile(dir, number+"/effective_affinity_list")
			match.Hint = MaskFile(dir, number+"/affinity_hint")
			match.Managed = m.Live() && Unwritable(dir, number+"/smp_affinity_list")
			nics[i].IRQs = append(nics[i].IRQs, match)
		}
	}
}

// sameFunction returns the names of the other NICs on the same bus device (two ports of one PCI function, mlx4).
func sameFunction(nics []facts.NIC, i int) []string {
	var names []string
	for j := range nics {
		if j != i && nics[i].PCI != "" && nics[j].PCI == nics[i].PCI {
			names = append(names, nics[j].Name)
		}
	}
	return names
}

// ownedIRQs returns the MSI interrupts of the NIC's bus device; nil if sysfs does not list them.
func ownedIRQs(m *tree.Tree, dir string) []int {
	var numbers []int
	for _, name := range m.List(m.Function(dir) + "/msi_irqs") {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// matchInterrupts returns a NIC's interrupts. Interrupts that nobody has requested (vectors allocated, device down)
// have no handler and are left out: there is nothing to place.
func matchInterrupts(n *facts.NIC, busDevice string, owned []int, rows []interrupt, others []string) []facts.IRQ {
	var irqs []facts.IRQ
	for _, row := range rows {
		for _, action := range row.Actions {
			if owned != nil {
				if _, is := slices.BinarySearch(owned, row.Number); !is || containsName(action, others) {
					continue
				}
			} else if !containsName(action, []string{n.Name, n.PCI, busDevice}) {
				continue
			}
			irqs = append(irqs, facts.IRQ{
				Number: row.Number, Name: action, On: irqNameOn(action, n.Name, busDevice, n.Driver),
				Count:    row.Count(),
				Affinity: setting.CPUSet{}, Effective: setting.CPUSet{}, Hint: setting.CPUSet{},
			})
			break
		}
	}
	return irqs
}

// containsName reports whether a handler's name contains one of the names as a whole word: "eth1" is not in
// "eth10-TxRx-0".
func containsName(action string, names []string) bool {
	for _, name := range names {
		if name == "" {
			continue
		}
		for from := 0; ; {
			at := strings.Index(action[from:], name)
			if at < 0 {
				break
			}
			at += from
			end := at + len(name)
			if (at == 0 || !isAlphanumeric(action[at-1])) && (end == len(action) || !isAlphanumeric(action[end])) {
				return true
			}
			from = at + 1
		}
	}
	return false
}

func isAlphanumeric(b byte) bool {
	return b < 0x80 && (unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b)))
}

// irqNameOn returns a handler's name without the parts that name the device. Drivers add the device's name from when it
// was last set up ("eth0-TxRx-3"), the driver's ("i40e-eth0-TxRx-3"), the bus device's ("virtio2-input.0") or the PCI
// address ("mlx5_comp3@pci:0000:01:00.0", "i40e-0000:01:00.0:misc"). The rest survives renaming the device. A handler
// with just the device's name (the only vector, or igb's for link changes) is "device".
func irqNameOn(action, device, busDevice, driver string) string {
	name, _, _ := strings.Cut(action, "@pci:")
	if rest, found := strings.CutPrefix(name, driver+"-"); found && driver != "" {
		name = rest
	}
	stripped := false
	for _, prefix := range []string{device + "-", busDevice + "-", busDevice + ":"} {
		if rest, found := strings.CutPrefix(name, prefix); found && len(prefix) > 1 {
			name, stripped = rest, true
			break
		}
	}
	if head, rest, found := strings.Cut(name, "-"); found && !stripped && looksLikeDevice(head) &&
		startsWithLetter(rest) {
		name = rest // an earlier name of the device
	}
	if name == device || name == busDevice || name == "" {
		return "device"
	}
	return strings.ReplaceAll(name, "/", "_") // slashes separate the elements of an address
}

// looksLikeDevice reports whether a word may be the name of a network device: letters and digits, the last one a digit.
func looksLikeDevice(word string) bool {
	for i := range len(word) {
		if !isAlphanumeric(word[i]) {
			return false
		}
	}
	return word != "" && word[len(word)-1] >= '0' && word[len(word)-1] <= '9'
}

func startsWithLetter(text string) bool { return text != "" && unicode.IsLetter(rune(text[0])) }

// ListFile returns a CPU list below a directory; empty if it cannot be read.
func ListFile(dir *tree.Folder, name string) setting.CPUSet {
	set, _ := setting.ParseCPUs(dir.Line(name))
	return tree.OrEmpty(set)
}

// MaskFile returns a CPU mask below a directory; empty if it cannot be read.
func MaskFile(dir *tree.Folder, name string) setting.CPUSet {
	set, _ := setting.ParseCPUMask(dir.Line(name))
	return tree.OrEmpty(set)
}

// Unwritable reports whether a file exists and nobody has write permission.
func Unwritable(dir *tree.Folder, name string) bool {
	mode, there := dir.Mode(name)
	return there && mode&0o222 == 0
}
