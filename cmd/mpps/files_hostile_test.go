package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/site"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// hostileTexts are texts that cost a careless reader its time, memory or stack, or its terminal.
func hostileTexts() map[string]string {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'j'; i++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	flat := strings.ReplaceAll(strings.ReplaceAll(bomb, "\n", "\n  "), "a: &a", "- id: x\n  want: &a")
	return map[string]string{
		"aliases of aliases": bomb, "aliases in an entry": flat,
		"an alias of itself": "- &a [*a]\n", "a mapping of itself": "- &a {id: *a}\n",
		"brackets":     strings.Repeat("[", 900_000),
		"braces":       strings.Repeat(`{"a":`, 150_000),
		"indentation":  strings.Repeat("- ", 500_000),
		"white space":  strings.Repeat(" \n", 20<<20),
		"zeros":        string(make([]byte, 20<<20)),
		"no text":      "\xff\xfe\x00\x01",
		"a long key":   `{"` + strings.Repeat("k", 900_000) + `":1}`,
		"escapes":      "- id: \"\\e]0;owned\\a\\e[2J\"\n  want: \"\\u202egnp.exe\"\n  reason: \"\\e[31m\"\n",
		"raw escapes":  "{\"schema\": \"\x1b]0;owned\a\x1b[2J\", \"\x1b[2J\": 1}",
		"JSON escapes": `{"schema": "\u001b]0;owned\u0007\u001b[2J", "\u001b[2J": 1}`,
		"unknown":      `{"schema": "mpps.unknown/9", "surprise": true}`,
		"a number":     "1e999", "null": "null", "a list": "[null, null]", "many documents": strings.Repeat("---\n", 200_000),
		"a tag": "- !!python/object:os.system {id: x}\n",
	}
}

// hostileFiles are files that are none, or never end.
func hostileFiles() map[string]func(name string) error {
	return map[string]func(string) error{
		"a named pipe":       func(name string) error { return syscall.Mkfifo(name, 0o644) },
		"a folder":           func(name string) error { return os.Mkdir(name, 0o755) },
		"a link to itself":   func(name string) error { return os.Symlink(filepath.Base(name), name) },
		"a link to zeros":    func(name string) error { return os.Symlink("/dev/zero", name) },
		"a link out of here": func(name string) error { return os.Symlink("../../../../../../../../etc/shadow", name) },
		"a sparse file": func(name string) error {
			if err := os.WriteFile(name, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(name, 1<<40)
		},
	}
}

// TestHostileFiles: whatever stands in a file, its reader ends in seconds, with an error of a few lines that does not
// steer the terminal.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	readers := map[string]func(root, file string) []string{
		"etc/mpps/site.yaml": func(root, _ string) []string { return []string{"--root", root, "audit"} },
		site.GoalPath:        func(root, _ string) []string { return []string{"--root", root, "audit"} },
		lasting.DesiredFile:  func(root, _ string) []string { return []string{"--root", root, "restore"} },
		"snapshot":           func(_, file string) []string { return []string{"audit", "--snapshot", file} },
		"description":        func(_, file string) []string { return []string{"domain", "render", file} },
		"plan":               func(root, file string) []string { return []string{"--root", root, "apply", "--yes", file} },
		"run":                func(_, file string) []string { return []string{"report", file} },
	}
	for reader, argv := range readers {
		t.Run(reader, func(t *testing.T) {
			t.Parallel()
			put := map[string]func(string) error{}
			for name, text := range hostileTexts() {
				put[name] = func(file string) error { return os.WriteFile(file, []byte(text), 0o644) }
			}
			for name, make := range hostileFiles() {
				put[name] = make
			}
			for name, make := range put {
				if name == "null" && (reader == site.Path || reader == site.GoalPath) {
					continue // empty
				}
				root := t.TempDir()
				for _, dir := range []string{"proc/sys/kernel", "sys/devices/system/cpu/cpu0", filepath.Dir(reader)} {
					must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
				}
				file := filepath.Join(root, reader)
				must.Do(t, make(file))
				checkHostile(t, name, argv(root, file))
			}
		})
	}
}

// checkHostile runs a command that is to fail.
func checkHostile(t *testing.T, name string, argv []string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	done := make(chan int, 1)
	began := time.Now()
	go func() { done <- run(argv, strings.NewReader(""), io.Writer(&stdout), &stderr) }()
	select {
	case code := <-done:
		text := stderr.String()
		must.Hold(t, code != outcome.CodeOK && !strings.Contains(text, "goroutine ") && len(text) <= 4<<10,
			"%s: exit code %d, %d bytes: %.200q", name, code, len(text), text)
		steers := func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' }
		if i := strings.IndexFunc(text, steers); i >= 0 {
			t.Errorf("%s: a control character in %.300q", name, text[i:])
		}
		if took := time.Since(began); took > 20*time.Second { // 7 s were seen at a load of 27
			t.Errorf("%s: it took %v", name, took)
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("%s: no end after 2 minutes", name)
	}
}
