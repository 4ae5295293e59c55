package definition

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/model/goal"
	"mpps/internal/must"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// recorded is the tree of a recorded host whose guest web1 has an e1000.
func recorded(t *testing.T) *ops.Env {
	t.Helper()
	root := t.TempDir()
	must.Do(t, golden.Tree("../../../cmd/mpps/testdata/trees/two-nodes.txtar", root))
	return &ops.Env{Root: root, Version: "test", Out: ops.Deaf{}}
}

// TestShow: a guest of the host and the same definition as a file say the same of themselves.
func TestShow(t *testing.T) {
	t.Parallel()
	env := recorded(t)
	d := must.Get(Of(t.Context(), env, "web1", nil))(t)
	guest := must.Get(Show(t.Context(), env, "web1", nil))(t)
	file := must.Get(Show(t.Context(), env, "-", strings.NewReader(string(d.Text))))(t)
	must.Hold(t, guest.Source == "guest web1" && file.Source == "standard input" && guest.Host != "" && file.Host == "",
		"found %q of %q and %q of %q", guest.Source, guest.Host, file.Source, file.Host)
	must.Hold(t, len(guest.Values) != 0 && len(guest.Values) == len(file.Values),
		"%d and %d values", len(guest.Values), len(file.Values))
	_, err := Show(t.Context(), env, "web9", nil)
	if _, hint := outcome.Of(err); err == nil || !strings.Contains(hint, "web1") {
		t.Errorf("web9: %v, hint %q", err, hint)
	}
}

// TestWithoutDefinition: a guest that runs without libvirt is named as such, with who changes it.
func TestWithoutDefinition(t *testing.T) {
	t.Parallel()
	env := recorded(t)
	line := "/usr/bin/kvm\x00-id\x00101\x00-name\x00shop\x00-smp\x002\x00"
	for name, text := range map[string]string{
		"proc/400/comm": "kvm\n", "proc/400/cmdline": line, "run/qemu-server/101.pid": "400\n",
		"proc/401/comm": "kvm\n", "proc/401/cmdline": strings.Replace(line, "shop", "byhand", 1),
		"proc/402/comm": "kvm\n", "proc/402/cmdline": strings.Replace(line, "shop", "claim", 1),
		"proc/400/status": "Name:\tkvm\nUid:\t0\t0\t0\t0\n", "proc/401/status": "Name:\tkvm\nUid:\t0\t0\t0\t0\n",
		"proc/402/status": "Name:\tkvm\nUid:\t1000\t1000\t1000\t1000\n",
	} {
		file := filepath.Join(env.Root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
	}
	for guest, want := range map[string][2]string{
		"shop":   {"Proxmox VE (101)", "'mpps handover --guest shop'"},
		"byhand": {"QEMU", "command line"},
		"claim":  {`no guest "claim"`, "process 402 only has its name"},
	} {
		_, err := Of(t.Context(), env, guest, nil)
		if _, hint := outcome.Of(err); err == nil || !strings.Contains(err.Error(), want[0]) ||
			!strings.Contains(hint, want[1]) {
			t.Errorf("%s: %v, hint %q", guest, err, hint)
		}
	}
}

// TestTune: what is asked for by name goes before advice, and what the host cannot do is refused.
func TestTune(t *testing.T) {
	t.Parallel()
	env := recorded(t)
	tune := func(ctx context.Context, a TuneOptions, values map[string]string) (*TuneResult, error) {
		a.Word, a.Asked = "web1", &Request{Values: values}
		tuned, done, err := Tune(ctx, env, a)
		must.Hold(t, done == nil, "%+v: the host was changed", values)
		return tuned, err
	}
	packets := goal.Unlimited()
	for _, test := range []struct {
		what   string
		ask    TuneOptions
		values map[string]string
		want   string // in the definition
		wrong  string
		code   int
	}{
		{"named", TuneOptions{}, map[string]string{"model": "virtio", "queues": "2"}, "queues='2'", "", 0},
		{"advised", TuneOptions{Goal: &packets}, nil, "virtio", "", 0},
		{"both", TuneOptions{Goal: &packets}, map[string]string{"queues": "3"}, "queues='3'", "", 0},
		{"no such CPU", TuneOptions{}, map[string]string{"vcpupin": "0=4000"}, "", "4000", outcome.CodeFailed},
		{"no value", TuneOptions{}, map[string]string{"kvmclock": "maybe"}, "", "on or off", outcome.CodeUsage},
		{"config alone", TuneOptions{Config: true}, nil, "", "--apply", outcome.CodeUsage},
		{"another host", TuneOptions{Apply: true, Snapshot: "a.json"}, nil, "", "--snapshot", outcome.CodeUsage},
	} {
		tuned, err := tune(t.Context(), test.ask, test.values)
		if test.wrong == "" {
			must.Hold(t, err == nil && strings.Contains(string(tuned.Text), test.want) && tuned.Changed(),
				"%s: %v, expected %s", test.what, err, test.want)
			continue
		}
		if code, _ := outcome.Of(err); err == nil || code != test.code || !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %v, code %d, expected %q", test.what, err, code, test.wrong)
		}
	}
}
