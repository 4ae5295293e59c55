package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// setMigration configures how states are written and read: a file with a fixed place for each page, by two threads
// (docs/devel/migration/mapped-ram.rst).
func (m *monitor) setMigration() error {
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	if _, err := m.do("migrate-set-capabilities",
		map[string]any{"capabilities": []capability{{"mapped-ram", true}, {"multifd", true}}}); err != nil {
		return err
	}
	_, err := m.do("migrate-set-parameters", map[string]any{"multifd-channels": 2, "max-bandwidth": 0})
	return err
}

// waitMigration waits for the end of a migration.
func (m *monitor) waitMigration(ctx context.Context) error {
	for {
		raw, err := m.do("query-migrate", nil)
		if err != nil {
			return err
		}
		var state struct {
			Status string `json:"status"`
			Desc   string `json:"error-desc"`
		}
		if err := json.Unmarshal(raw, &state); err != nil {
			return err
		}
		switch state.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("migration %s: %s", state.Status, state.Desc)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// load makes a waiting QEMU read a state and continue from there. QEMU may not listen on its socket yet.
func (l *Lab) load(ctx context.Context, memory string) error {
	socket := filepath.Join(l.dir, "qmp.sock")
	m, err := dialMonitor(ctx, socket)
	for ; err != nil && l.running() && ctx.Err() == nil; m, err = dialMonitor(ctx, socket) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.setMigration(); err != nil {
		return err
	}
	if _, err := m.do("migrate-incoming", map[string]string{"uri": "file:" + memory}); err != nil {
		return err
	}
	if err := m.waitMigration(ctx); err != nil {
		return err
	}
	_, err = m.do("cont", nil)
	return err
}

// syncFile writes a file to the disk, part by part: ctx cannot end a system call.
func syncFile(ctx context.Context, path string) error {
	const part = 64 << 20
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); at += part {
		if err := errors.Join(ctx.Err(), unix.SyncFileRange(int(f.Fd()), at, part, unix.SYNC_FILE_RANGE_WRITE|
			unix.SYNC_FILE_RANGE_WAIT_AFTER)); err != nil {
			return err
		}
	}
	return f.Sync()
}
