package setting

import (
	"fmt"
	"strconv"
)

// OVSDB: "ovsdb:max-idle", a key of other_config in the table Open_vSwitch (ovs-vswitchd.conf.db(5)). The text that the
// database holds; absent if the key is not there, and ovs-vswitchd uses its default.
const OVSDB Kind = "ovsdb"

// InOpenVSwitch is how long Open vSwitch keeps a value.
const InOpenVSwitch Lasting = "in Open vSwitch's database"

// Range is the smallest and the largest number that a value may be set to.
type Range struct{ Least, Most int64 }

// OVSDBKeys are the keys that are set, with their ranges. The least numbers are those of vswitchd/vswitch.xml; the
// largest keep a slip from doing harm: an hour in ms, ten million flows (some GB of memory), a thousand threads. A key
// of a journal must stay in the list, so that its transaction can be rolled back.
var OVSDBKeys = map[string]Range{
	"max-idle":          {500, 3_600_000},
	"flow-limit":        {1000, 10_000_000},
	"n-handler-threads": {1, 1024},
}

// CheckOVSDB returns an error unless a value may be written to a key. ovs-vswitchd takes its default for what is not
// a decimal number (lib/smap.c, smap_get_int).
func CheckOVSDB(key, value string) error {
	bounds, known := OVSDBKeys[key]
	if !known {
		return fmt.Errorf("mpps does not set other_config:%s", key)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != value || n < bounds.Least || n > bounds.Most {
		return fmt.Errorf("expected a number from %d to %d, found %q", bounds.Least, bounds.Most, value)
	}
	return nil
}
