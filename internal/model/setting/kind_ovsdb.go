package setting

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// OVSDB: "ovsdb:max-idle", a key of other_config in the table Open_vSwitch (ovs-vswitchd.conf.db(5)). The text that the
// database holds; absent if the key is not there, and ovs-vswitchd uses its default.
const OVSDB Kind = "ovsdb"

// InOpenVSwitch is how long Open vSwitch keeps a value.
const InOpenVSwitch Lasting = "in Open vSwitch's database"

// Range is the smallest and the largest number that a value may be set to; of 0 and 0 the value is no number, and
// Form says what it is.
type Range struct {
	Least, Most int64
	Form        OVSDBForm
}

// OVSDBForm is the form of a value that is no number.
type OVSDBForm string

// The forms: "true" or "false" (lib/smap.c, smap_get_bool), and CPUs as hexadecimal digits, the highest first
// (lib/ovs-numa.c, ovs_numa_dump_cores_with_cmask).
const (
	OVSDBTruth OVSDBForm = "truth"
	OVSDBMask  OVSDBForm = "mask"
)

// OVSDBKeys are the keys that are set, with their ranges. The least numbers are those of vswitchd/vswitch.xml; the
// largest keep a slip from doing harm: an hour in ms, ten million flows (some GB of memory), a thousand threads. A key
// of a journal must stay in the list, so that its transaction can be rolled back.
var OVSDBKeys = map[string]Range{
	"max-idle":          {Least: 500, Most: 3_600_000},
	"flow-limit":        {Least: 1000, Most: 10_000_000},
	"n-handler-threads": {Least: 1, Most: 1024},
	"pmd-cpu-mask":      {Form: OVSDBMask},
	"pmd-auto-lb":       {Form: OVSDBTruth},
	"smc-enable":        {Form: OVSDBTruth},
	// the reciprocal of a probability; 0: never (lib/dpif-netdev.c, dpif_netdev_set_config)
	"emc-insert-inv-prob": {Least: 0, Most: 1<<32 - 1},
}

// CheckOVSDB returns an error unless a value may be written to a key. ovs-vswitchd takes its default for what is not
// a decimal number (lib/smap.c, smap_get_int).
func CheckOVSDB(key, value string) error {
	bounds, known := OVSDBKeys[key]
	if !known {
		return fmt.Errorf("mpps does not set other_config:%s", key)
	}
	switch bounds.Form {
	case OVSDBTruth:
		if value != "true" && value != "false" {
			return fmt.Errorf("expected true or false, found %q", value)
		}
		return nil
	case OVSDBMask:
		if cpus, err := ParseOVSMask(value); err != nil || len(cpus) == 0 {
			return fmt.Errorf("expected hexadecimal digits with at least one CPU, found %q", value)
		}
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != value || n < bounds.Least || n > bounds.Most {
		return fmt.Errorf("expected a number from %d to %d, found %q", bounds.Least, bounds.Most, value)
	}
	return nil
}

// maxMask bounds the digits of a mask: 8192 CPUs, the most of Linux (NR_CPUS).
const maxMask = 2048

// ParseOVSMask returns the CPUs of a mask of Open vSwitch.
func ParseOVSMask(text string) (CPUSet, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	if digits == "" || len(digits) > maxMask {
		return nil, fmt.Errorf("expected a mask of hexadecimal digits, found %.80q", text)
	}
	cpus := CPUSet{}
	for at := range len(digits) {
		n, err := strconv.ParseUint(digits[len(digits)-1-at:len(digits)-at], 16, 8)
		if err != nil {
			return nil, fmt.Errorf("expected a mask of hexadecimal digits, found %.80q", text)
		}
		for bit := range 4 {
			if n>>bit&1 == 1 {
				cpus = append(cpus, 4*at+bit)
			}
		}
	}
	return cpus, nil
}

// OVSMask returns a mask of CPUs as Open vSwitch takes it: "0x6".
func OVSMask(cpus CPUSet) string {
	mask := new(big.Int)
	for _, cpu := range cpus {
		mask.SetBit(mask, cpu, 1)
	}
	return "0x" + mask.Text(16)
}
