package facts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func small() *Host {
	h := Synthetic(Size{CPUs: 16, NICs: 2, Queues: 4, Guests: 3})
	h.Readings[setting.Of(setting.Sysctl, "net.core.dev_weight")] = setting.Value("64")
	h.Readings[setting.Of(setting.Domain, "vm001", "interface", "52:54:00:00:00:01", "driver.queues")] = setting.Value(
		"4")
	h.Readings[setting.Of(setting.ThreadAffinity, "vm001", "vhost", "52:54:00:00:00:01", "0")] = setting.Value("0-15")
	h.Readings[setting.Of(setting.SysfsCPUs, "class/net/vnet2/queues/tx-0/xps_cpus")] = setting.Missing("no XPS")
	return h
}

func written(t testing.TB, h *Host) []byte {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, Write(&text, h, "1.2.3"))
	return text.Bytes()
}

func TestSnapshotComesBackAsItWas(t *testing.T) {
	h := small()
	h.Unseen = []Unseen{RulesUnseen("iptables", "", "needs root")}
	text := written(t, h)
	back := must.Get(ReadSnapshot(bytes.NewReader(text)))(t)
	if again := written(t, back); !bytes.Equal(text, again) {
		t.Error("written again it differs")
	}
	must.Empty(t, Diff(h, back), "it differs from what was written")
	must.Same(t, back.Readings, h.Readings, "readings")
	must.Contain(t, string(text), `"rules of iptables: needs root"`)
}

// endless is a file that never ends and tells how much of it was read.
type endless struct {
	fill byte
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.fill
	}
	e.read += len(p)
	return len(p), nil
}

func TestEndlessFilesAreNotReadToTheEnd(t *testing.T) {
	for _, fill := range []byte{0, ' ', '[', '\n', 'a'} {
		file := &endless{fill: fill}
		_, err := ReadSnapshot(file)
		var refused *SnapshotError
		must.Hold(t, errors.As(err, &refused), "%q: expected a refusal, found %v", fill, err)
		must.Hold(t, file.read <= 1<<20, "%q: %d bytes were read", fill, file.read)
	}
}

func TestTooLargeIsRefused(t *testing.T) {
	file := &endless{fill: 'x'}
	_, err := readBounded(io.MultiReader(strings.NewReader(`{"schema":"mpps.snapshot/1","x":"`), file), 4<<20)
	must.Hold(t, err != nil && strings.Contains(err.Error(), "larger than 4 MiB") && file.read <= 8<<20,
		"expected a refusal by size, found %v after %d bytes", err, file.read)
}

func TestHostileSnapshotsAreRefused(t *testing.T) {
	good := string(written(t, small()))
	swap := func(old, new string) string {
		must.Need(t, strings.Contains(good, old), "the snapshot does not contain %s", old)
		return strings.Replace(good, old, new, 1)
	}
	in := func(result string) string { return `{"schema":"mpps.snapshot/1","result":{` + result + `}}` }
	cases := map[string]struct{ text, want string }{
		"empty":              {"", "empty"},
		"blank":              {" \n ", "white space"},
		"zeros":              {strings.Repeat("\x00", 5000), "not a snapshot"},
		"html":               {"<html>", "not a snapshot"},
		"list":               {"[1,2]", "not a snapshot"},
		"truncated":          {good[:len(good)/2], "truncated"},
		"truncated early":    {`{"schema":"mpps.sn`, "truncated"},
		"trailing":           {good + "{}", "not JSON"},
		"no schema":          {`{"result":{}}`, "names no schema"},
		"other command":      {swap("mpps.snapshot/1", "mpps.audit/1"), `"mpps.audit/1"`},
		"later version":      {swap("mpps.snapshot/1", "mpps.snapshot/2"), "this version reads"},
		"foreign":            {`{"schema":"\u001b[2Jowned","result":{}}`, "expected"},
		"no result":          {`{"schema":"mpps.snapshot/1"}`, "no result"},
		"schema twice":       {swap("{", `{"schema":"mpps.snapshot/1",`), `"schema" stands twice`},
		"a name twice":       {swap(`"name": "eth0"`, `"Name":"eth1","name": "eth0"`), `"name" stands twice`},
		"NaN":                {swap(`"ifindex": 2`, `"ifindex": NaN`), "not JSON"},
		"wrong type":         {swap(`"ifindex": 2`, `"ifindex": "two"`), "expected int"},
		"huge number":        {swap(`"ifindex": 2`, `"ifindex": 1e400`), "expected int"},
		"traversal":          {swap(`"name": "eth0"`, `"name": "../../etc/passwd"`), "not a name"},
		"nameless bridge":    {in(`"bridges":[{"name":"","ports":[]}]`), "has no name"},
		"nameless port":      {in(`"bridges":[{"name":"a","ports":[null]}]`), "has no name"},
		"nameless NIC":       {in(`"nics":[{}]`), "has no name"},
		"nameless tap":       {in(`"taps":[{"name":""}]`), "has no name"},
		"nameless tunnel":    {in(`"tunnels":[{"name":""}]`), "has no name"},
		"nameless link":      {in(`"links":[{"name":""}]`), "has no name"},
		"nameless device":    {in(`"namespaces":[{"devices":[{"name":""}]}]`), "has no name"},
		"guest traversal":    {swap(`"name": "vm000"`, `"name": ".."`), "not a name"},
		"escape in a name":   {swap(`"name": "vm000"`, `"name": "\u001b[2J"`), "not a name"},
		"traversing address": {in(`"readings":{"sysfs:../../etc/shadow":{"state":"known"}}`), ".."},
		"unknown kind":       {in(`"readings":{"shell:rm":{"state":"known"}}`), "unknown kind"},
		"unknown state":      {in(`"readings":{"sysctl:a":{"state":"maybe"}}`), "unknown state"},
		"CPU beside itself":  {in(`"topology":{"cpus":[{"id":1,"l3":-1},{"id":1,"l3":-1}]}`), "at most once"},
		"CPU out of order":   {in(`"topology":{"cpus":[{"id":2,"l3":-1},{"id":1,"l3":-1}]}`), "not in order"},
		"cache that is not":  {in(`"topology":{"cpus":[{"id":0,"l3":7}]}`), "cache 7 of 0"},
		"billion vCPUs":      {in(`"guests":[{"name":"a","vcpus":1000000000}]`), "vCPUs of guest a"},
		"negative daemons":   {in(`"storage":[{"name":"a","count":-1}]`), "storage daemons a"},
		"negative queues":    {in(`"nics":[{"name":"a","rx_queues":-1}]`), "NIC a"},
		"absurd channels":    {in(`"nics":[{"name":"a","channels":{"combined":2000000000}}]`), "channels of NIC a"},
		"CPU number":         {in(`"topology":{"online":"0-99999999"}`), "above"},
		"deep":               {`{"schema":"mpps.snapshot/1","x":` + strings.Repeat("[", 100000), "beyond all bounds"},
		"deep objects": {`{"schema":"mpps.snapshot/1","x":` + strings.Repeat(`{"a":`, 100000),
			"beyond all bounds"},
		"many objects":        {in(`"nics":[` + strings.Repeat("{},", 600_000) + "{}]"), "beyond all bounds"},
		"many elements":       {in(`"x":[` + strings.Repeat("0,", 2_100_000) + "0]"), "beyond all bounds"},
		"CPU lists that grow": {in(`"x":[` + strings.Repeat(`"0-16383",`, 1000) + `""]`), "beyond all bounds"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ReadSnapshot(strings.NewReader(c.text))
			var refused *SnapshotError
			must.Need(t, errors.As(err, &refused), "expected a refusal, found %v", err)
			must.Hold(t, strings.Contains(err.Error(), c.want), "expected an error with %q, found %q", c.want, err)
			if refused.Hint() == "" || len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x1b\x00\n") {
				t.Errorf("not an error for people: %q, hint %q", err, refused.Hint())
			}
		})
	}
}

func TestReadErrorsAreNotTheFilesFault(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := ReadSnapshot(io.MultiReader(strings.NewReader("{"), failing{broken}))
	must.Hold(t, errors.Is(err, broken), "expected %v, found %v", broken, err)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestUnknownFieldsAreIgnored(t *testing.T) {
	h, err := ReadSnapshot(strings.NewReader(
		`{"schema":"mpps.snapshot/1","later":[{}],"result":{"name":"a","newer":{"x":1}}}`))
	must.Hold(t, err == nil && h.Name == "a" && h.Readings != nil, "found %+v, %v", h, err)
}

func FuzzReadSnapshot(f *testing.F) {
	good := written(f, Synthetic(Size{CPUs: 16, NICs: 1, Queues: 1, Guests: 1}))
	f.Add(good)
	f.Add(good[:200])
	f.Add([]byte(`{"schema":"mpps.snapshot/1","result":{"topology":{"cpus":[{"id":0,"siblings":"0-3"}]}}}`))
	f.Add([]byte(`{"schema":"mpps.snapshot/1","result":{"readings":{"sysctl:a.b":{"state":"known","value":"1"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ReadSnapshot(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := ReadSnapshot(bytes.NewReader(written(t, h)))
		must.Need(t, err == nil, "what was read and written cannot be read: %v", err)
		if differences := Diff(h, again); len(differences) > 0 {
			t.Fatalf("differs after writing and reading: %v", differences)
		}
		must.Need(t, digest(h) == digest(again), "digest differs after writing and reading")
		Scrub(h)
	})
}

func BenchmarkReadSnapshot(b *testing.B) {
	h := Synthetic(Large)
	for i := range 20000 {
		h.Readings[setting.Of(setting.Sysctl, fmt.Sprintf("net.made.up.%d", i))] = setting.Value("1")
	}
	text := written(b, h)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(ReadSnapshot(bytes.NewReader(text)))(b)
	}
}

func BenchmarkDigest(b *testing.B) {
	h := Synthetic(Large)
	for b.Loop() {
		digest(h)
	}
}

// TestImpossibleMemory: sums and products of what a snapshot says of memory do not overflow.
func TestImpossibleMemory(t *testing.T) {
	for name, change := range map[string]func(*Host){
		"a node":       func(h *Host) { h.Topology.Nodes[0].Memory = 1 << 53 },
		"what is free": func(h *Host) { h.Topology.Nodes[0].Free = 1 << 63 },
		"pages":        func(h *Host) { h.Topology.Nodes[0].Hugepages = []Hugepages{{Size: 1 << 30, Total: 1 << 34}} },
		"a page":       func(h *Host) { h.Topology.Nodes[0].Hugepages = []Hugepages{{Size: 1 << 63, Total: 1}} },
		"a guest":      func(h *Host) { h.Guests[0].Memory = 1 << 53 },
	} {
		h := Synthetic(Size{CPUs: 16, NICs: 1, Queues: 2, Guests: 1})
		change(h)
		var text bytes.Buffer
		must.Do(t, Write(&text, h, "test"))
		must.Say(t, must.Err(ReadSnapshot(&text)), "no host has", "%s", name)
	}
}
