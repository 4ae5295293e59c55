package ovs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanism of settings in Open vSwitch's database.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{setting.OVSDB: &config{m: m, socket: path.Join(m.Path, socket),
		installed: func() bool { return slices.ContainsFunc(installed, m.Exists) },
		restarts:  restarting, seen: map[string]setting.Reading{}}}
}

// config reads and sets keys of other_config in the table Open_vSwitch (setting.OVSDB).
type config struct {
	m         *tree.Tree
	socket    string
	installed func() bool
	restarts  time.Duration // how long a database that does not run is waited for

	mu   sync.Mutex
	seen map[string]setting.Reading // by key: what the last read found. A write refuses to replace anything else.
}

// rootTable is the database's table of one row.
const rootTable = "Open_vSwitch"

// installed are folders that a host with Open vSwitch has, whether the switch runs or not (ovs-ctl(8), FILES).
var installed = []string{folder, "etc/openvswitch", "var/lib/openvswitch"}

// errNotInstalled is the error of a host that has no Open vSwitch. Where it only does not run, its database still holds
// what was set.
var errNotInstalled = fmt.Errorf("there is no Open vSwitch here: %w", unix.ENODEV)

func (c *config) Read(_ context.Context, a setting.Address) setting.Reading {
	r := c.read(a.Path)
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.seen, a.Path); r.State != setting.Unknown {
		c.seen[a.Path] = r
	}
	return r
}

func (c *config) read(key string) setting.Reading {
	row, err := c.row()
	switch {
	case errors.Is(err, errNotInstalled):
		return setting.NoObject("there is no Open vSwitch here")
	case err != nil:
		return setting.CouldNotTell(explained(err).Error())
	}
	return reading(row.Config, key)
}

// explained explains an error of the database's socket.
func explained(err error) error {
	switch {
	case stopped(err):
		return fmt.Errorf("the database of Open vSwitch does not run: %w", err)
	case tree.Unprivileged(err):
		return fmt.Errorf("the database of Open vSwitch needs root: %w", err)
	}
	return err
}

// stopped reports whether an error is that of a database that does not run, or restarts.
func stopped(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// reading returns the value of a key. A value that a write would refuse can still be restored (AsFound).
func reading(held table, key string) setting.Reading {
	value, has := held[key]
	if !has {
		return setting.Missing("the database has no other_config:" + key)
	}
	r := setting.Value(value)
	if _, known := setting.OVSDBKeys[key]; !known {
		r.ReadOnly, r.Why = true, "mpps does not set it"
	} else if err := setting.CheckOVSDB(key, value); err != nil {
		r.AsFound, r.Why = true, "stands there, though it would be refused: "+err.Error()
	}
	return r
}

// row reads the row of the table.
func (c *config) row() (row rootRow, err error) {
	if !c.installed() {
		return row, errNotInstalled
	}
	var results []outcome
	if c.m.Live() {
		results, err = ask(c.socket, []operation{selectOf(rootTable, "_uuid", "other_config")})
	} else {
		results, err = recorded(c.m)
	}
	if err != nil {
		return row, err
	}
	rows, _, err := rowsOf[rootRow](results, 0)
	if err != nil {
		return row, err
	}
	if len(rows) != 1 {
		return row, fmt.Errorf("expected one row in the table %s, found %d", rootTable, len(rows))
	}
	return rows[0], nil
}

// restarting is how long a database that does not run is waited for: ovs-ctl restart stops it for about a second.
const restarting = 10 * time.Second

func (c *config) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	c.mu.Lock()
	seen, known := c.seen[a.Path]
	delete(c.seen, a.Path)
	c.mu.Unlock()
	if err := c.check(a, to); err != nil {
		return err
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	err := setting.Within(ctx, func() error {
		if !known {
			row, err := c.await(ctx)
			if err != nil {
				return err
			}
			seen = reading(row.Config, a.Path)
		}
		return c.replace(ctx, a.Path, seen, to)
	})
	if err != nil {
		return tree.Refusal(a, to.String(), explained(err))
	}
	return nil
}

// check returns why a reading may not be written.
func (c *config) check(a setting.Address, to setting.Reading) error {
	_, known := setting.OVSDBKeys[a.Path]
	switch {
	case !known:
		return a.Errorf("mpps does not set other_config:%s", a.Path)
	case to.State == setting.Unknown:
		return a.Errorf("expected a value to write, found %s", to)
	case to.State == setting.Known && !to.AsFound:
		if err := setting.CheckOVSDB(a.Path, to.Value); err != nil {
			return a.Errorf("%w", err)
		}
	}
	if !c.m.Live() {
		return a.Errorf("%w", tree.ErrNotLive)
	}
	return nil
}

// await reads the row, and waits for a database that restarts.
func (c *config) await(ctx context.Context) (row rootRow, err error) {
	for until := time.Now().Add(c.restarts); ; {
		row, err = c.row()
		if err == nil || !stopped(err) && !errors.Is(err, errNoAnswer) || time.Now().After(until) || ctx.Err() != nil {
			return row, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// rounds is how often a transaction is tried if other keys change meanwhile.
const rounds = 8

// replace sets or removes a key if its value is still the one seen. The transaction's condition is the whole column as
// it was read a moment ago: OVSDB has no condition for a map that lacks a key (RFC 7047, 5.1).
func (c *config) replace(ctx context.Context, key string, seen, to setting.Reading) error {
	for range rounds {
		row, err := c.await(ctx)
		if err != nil {
			return err
		}
		if now := reading(row.Config, key); !now.Same(seen) {
			return fmt.Errorf("somebody has changed it meanwhile from %s to %s; nothing was written", seen, now)
		}
		err = c.commit(ctx, row, key, to)
		var refused *Refused
		if !errors.As(err, &refused) || refused.Reason != timedOut {
			return err
		}
	}
	return fmt.Errorf("others changed other_config in each of %d attempts; nothing was written", rounds)
}

// timedOut is the error of a wait whose condition does not hold (RFC 7047, 5.2.6).
const timedOut = "timed out"

// commit sets or removes a key in one durable transaction, provided that the column is as in row.
func (c *config) commit(ctx context.Context, row rootRow, key string, to setting.Reading) error {
	conn, err := dial(c.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	results, err := exchange(conn, replacement(row, key, to))
	switch {
	case errors.Is(err, errNoAnswer):
		return c.resolve(ctx, key, to, err)
	case err != nil:
		return err
	case len(results) < 2 || results[1].Count != 1:
		return errors.New("the database changed no row")
	}
	return nil
}

// resolve finds out whether a transaction without a result was executed. If the connection was closed, the server has
// ended, and the next one shows what was written. After a timeout the transaction may still be executed.
func (c *config) resolve(ctx context.Context, key string, to setting.Reading, cause error) error {
	doubt := fmt.Errorf("%w: %w", setting.ErrInDoubt, cause)
	var late interface{ Timeout() bool }
	if errors.As(cause, &late) && late.Timeout() {
		return doubt
	}
	row, err := c.await(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w; then %w", doubt, err)
	case reading(row.Config, key).Same(to):
		return nil
	}
	return fmt.Errorf("the database restarted and did not take it: %w", cause)
}

// replacement is the transaction that sets or removes a key.
func replacement(row rootRow, key string, to setting.Reading) []operation {
	held := [][2]string{}
	for _, name := range slices.Sorted(maps.Keys(row.Config)) {
		held = append(held, [2]string{name, row.Config[name]})
	}
	where := []any{[]any{"_uuid", "==", []string{"uuid", id(row.UUID)}}}
	mutations := []any{[]any{"other_config", "delete", []any{"set", []string{key}}}}
	what := "remove other_config:" + key
	if to.State == setting.Known {
		mutations = append(mutations, []any{"other_config", "insert", []any{"map", [][2]string{{key, to.Value}}}})
		what = "other_config:" + key + "=" + to.Value
	}
	return []operation{
		{"op": "wait", "timeout": 0, "table": rootTable, "where": where, "columns": []string{"other_config"},
			"until": "==", "rows": []any{map[string]any{"other_config": []any{"map", held}}}},
		{"op": "mutate", "table": rootTable, "where": where, "mutations": mutations},
		{"op": "comment", "comment": "mpps: " + what}, // in ovsdb-tool show-log
		{"op": "commit", "durable": true},
	}
}
