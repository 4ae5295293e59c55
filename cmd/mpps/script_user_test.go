package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// nobody is the user that owns nothing.
const nobody = 65534

// unprivileged runs a program as a user without any rights and checks its exit code: "unprivileged 0 mpps inspect".
// Tests that are not run as root run it as they are.
func unprivileged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: unprivileged CODE PROGRAM ARGS…")
	}
	program, err := lookPath(ts.Getenv("PATH"), args[1])
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), ts.Stdout(), ts.Stderr()
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=/no-home"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		ts.Check(passable(program))
		ts.Check(passable(ts.MkAbs(".")))
	}
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		ts.Fatalf("%v", err)
	}
	if have, want := cmd.ProcessState.ExitCode(), number(ts, args[0]); have != want {
		ts.Fatalf("exit code %d, expected %d", have, want)
	}
}

func lookPath(path, name string) (string, error) {
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); err == nil && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("no program %s", name)
}

// passable opens the directories of the tests that lead to a file to everybody: they are made for root alone.
func passable(file string) error {
	for at := file; strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if err := os.Chmod(at, info.Mode().Perm()|0o055&^fs.FileMode(0o022)); err != nil {
			return err
		}
	}
	return nil
}
