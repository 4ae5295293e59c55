package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestEnoughDisk(t *testing.T) {
	must.Succeed(t, enoughDisk("/cache", treeBytes), "just enough")
	err := enoughDisk("/cache", treeBytes-1)
	var hint interface{ Hint() string }
	must.Need(t, errors.As(err, &hint) && hint.Hint() != "",
		"one byte short: found %v, expected an error with a hint", err)
	must.Equal(t, err.Error(), "lab: the root tree needs 2048 MiB in /cache, found 2047 MiB free", "error")
}

// oneLine checks that an error is a line and has a hint.
func oneLine(t *testing.T, err error) {
	t.Helper()
	var hint interface{ Hint() string }
	must.Hold(t, errors.As(err, &hint) && hint.Hint() != "" && !strings.Contains(err.Error(), "\n"),
		"found %v, expected a line and a hint", err)
}

func TestEnoughMemory(t *testing.T) {
	const (
		needs   = 6144 + besideMiB
		meminfo = "MemTotal:       24683524 kB\nMemAvailable:   %d kB\n"
		v2      = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
		v1      = "31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"32 20 0:28 %s /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	)
	type files map[string]string
	plenty, just, short := fmt.Sprint(1<<40), fmt.Sprint(needs<<20), fmt.Sprint(needs<<20-1)
	group := func(dir, limit, used, inactive string) files {
		return files{dir + "/memory.max": limit, dir + "/memory.current": used,
			dir + "/memory.stat": "anon 5\ninactive_file " + inactive + "\nactive_file 7\n"}
	}
	group1 := func(dir, limit, used, inactive string) files {
		return files{dir + "/memory.limit_in_bytes": limit, dir + "/memory.usage_in_bytes": used,
			dir + "/memory.stat": "inactive_file 3\ntotal_inactive_file " + inactive + "\n"}
	}
	const top, top1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
	for name, c := range map[string]struct {
		kib     int // MemAvailable
		own     string
		mounted string
		groups  []files
		want    string // of the error
	}{
		"just enough": {kib: needs << 10},
		"too little": {kib: needs<<10 - 1,
			want: "lab: a host of 6144 MiB needs 6656 MiB of memory, found 6655 MiB available"},
		"no limit": {needs << 10, "0::/a/b\n", v2,
			[]files{group(top+"/a/b", "max\n", plenty, "0"), group(top+"/a", "max\n", plenty, "0")}, ""},
		"own limit": {needs << 10, "0::/a/b\n", v2, []files{group(top+"/a/b", short, "0", "0")},
			"lab: a host of 6144 MiB needs 6656 MiB of memory, found 6655 MiB available in the control group " +
				"/sys/fs/cgroup/a/b"},
		"own limit, just enough": {needs << 10, "0::/a/b\n", v2, []files{group(top+"/a/b", just, "0", "0")}, ""},
		"a parent's": {needs << 10, "0::/a/b\n", v2,
			[]files{group(top+"/a/b", "max\n", "0", "0"), group(top+"/a", plenty, fmt.Sprint(1<<40-1<<30), "0")},
			"lab: a host of 6144 MiB needs 6656 MiB of memory, found 1024 MiB available in the control group " +
				"/sys/fs/cgroup/a"},
		"what the page cache holds": {needs << 10, "0::/\n", v2, []files{group(top, just, "4096", "4096")}, ""},
		"more in use than allowed": {needs << 10, "0::/\n", v2, []files{group(top, "4096", "8192", "0")},
			"lab: a host of 6144 MiB needs 6656 MiB of memory, found 0 MiB available in the control group " +
				"/sys/fs/cgroup"},
		"version 1": {needs << 10, "4:memory:/box/a\n3:cpu,cpuacct:/\n0::/\n", fmt.Sprintf(v1, "/"),
			[]files{group1(top1+"/box", short, "0", "0"), group1(top1+"/box/a", "9223372036854771712", "0", "0")},
			"lab: a host of 6144 MiB needs 6656 MiB of memory, found 6655 MiB available in the control group " +
				"/sys/fs/cgroup/memory/box"},
		"version 1 in a container": {needs << 10, "4:memory:/docker/1\n", fmt.Sprintf(v1, "/docker/1"),
			[]files{group1(top1, short, "8", "8")},
			"lab: a host of 6144 MiB needs 6656 MiB of memory, found 6655 MiB available in the control group " +
				"/sys/fs/cgroup/memory"},
		"a path of another namespace": {needs << 10, "0::/../../x\n", v2, []files{group(top, short, "0", "0")},
			"lab: a host of 6144 MiB needs 6656 MiB of memory, found 6655 MiB available in the control group " +
				"/sys/fs/cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tree := append(c.groups, files{"proc/meminfo": fmt.Sprintf(meminfo, c.kib), "proc/self/cgroup": c.own,
				"proc/self/mountinfo": c.mounted})
			for _, part := range tree {
				for file, text := range part {
					file = filepath.Join(root, file)
					must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
						os.WriteFile(file, []byte(text), 0o644)))
				}
			}
			err := checkMemory(root, 6144)
			if c.want == "" {
				must.Try(t, err)
				return
			}
			oneLine(t, err)
			must.Hold(t, err != nil && err.Error() == c.want, "found %v, expected %q", err, c.want)
		})
	}
	root := t.TempDir()
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(root, "proc"), 0o755),
		os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("MemTotal: 1 kB\n"), 0o644)))
	must.Refuse(t, checkMemory(root, 1024), "no MemAvailable: found no error")
}

func TestCheckMirror(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debian/dists/"+suite+"/Release" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer served.Close()
	folder := t.TempDir()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(folder, "dists", suite), 0o755),
		os.WriteFile(filepath.Join(folder, "dists", suite, "Release"), nil, 0o644)))
	for _, mirror := range []string{served.URL + "/debian", served.URL + "/debian/", "file://" + folder} {
		must.Succeed(t, checkMirror(t.Context(), mirror, nil), "%s", mirror)
	}
	must.Succeed(t, checkMirror(t.Context(), "http://mirror.invalid/debian", []string{"http_proxy=" + served.URL}),
		"by apt's proxy")
	for _, mirror := range []string{served.URL + "/ubuntu", "file://" + folder + "/ubuntu", "a mirror://x"} {
		oneLine(t, checkMirror(t.Context(), mirror, nil))
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	oneLine(t, checkMirror(t.Context(), gone.URL+"/debian", nil))
}

// TestMakeCache: a folder that cannot hold a tree, or where others could put one, is refused; noexec and nodev are
// tried with mounts, see TestLacking.
func TestMakeCache(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	for _, cache := range []string{file, filepath.Join(file, "below"), "/proc/cache"} {
		oneLine(t, makeCache(cache))
	}
	must.Do(t, checkCache(filepath.Join(dir, "none")))
	must.Do(t, checkCache(dir))
	must.Do(t, os.Chmod(dir, 0o775))
	oneLine(t, checkCache(dir))
}

// TestBuildFails: the failure of a program that builds is a line and a hint, and all that it printed is in a file.
func TestBuildFails(t *testing.T) {
	cache := t.TempDir()
	b := &builder{debs: filepath.Join(cache, "debs")}
	printed := "I: Retrieving Release\nE: Failed getting release file\n"
	err := b.failed(errors.New("exit status 1"), []byte(printed))
	oneLine(t, err)
	must.Equal(t, err.Error(), "exit status 1: E: Failed getting release file", "error")
	must.Equal(t, string(must.Get(os.ReadFile(filepath.Join(cache, buildLog)))(t)), printed, "log")
	oneLine(t, (&builder{debs: filepath.Join(cache, "none", "debs")}).failed(errors.New("exit status 1"), nil))
}

func TestDamagedTree(t *testing.T) {
	cache := t.TempDir()
	whole := &Tree{Dir: treeDir(cache), Release: "6.12"}
	must.Is(t, must.Err(OpenTree(cache)), fs.ErrNotExist, "no tree")
	files := []string{whole.loader("")[0], whole.loader("usr/bin/qemu-system-x86_64")[3],
		whole.loader("usr/libexec/virtiofsd")[3], whole.Kernel(), filepath.Join(whole.Dir, stamp)}
	for _, file := range files {
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(`{"Release": "6.12"}`), 0o644)))
	}
	must.Pass(OpenTree(cache))(t, "whole")
	stamped := filepath.Join(whole.Dir, stamp)
	for _, text := range []string{"", "{", "{}"} { // as a power cut leaves it
		must.Do(t, os.WriteFile(stamped, []byte(text), 0o644))
		must.Is(t, must.Err(OpenTree(cache)), fs.ErrNotExist, "a stamp %q", text)
	}
	must.Do(t, os.WriteFile(stamped, []byte(`{"Release": "6.12"}`), 0o644))
	must.Is(t, must.Err(OpenTree(stamped)), fs.ErrNotExist, "below a file")
	for _, file := range files {
		must.Do(t, os.Rename(file, file+".away"))
		must.Is(t, must.Err(OpenTree(cache)), fs.ErrNotExist, "without %s", file)
		must.Do(t, os.Rename(file+".away", file))
	}
}
