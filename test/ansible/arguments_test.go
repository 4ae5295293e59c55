package ansible

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mpps/internal/must"
)

// stub is Ansible's base of modules, as far as ours need it: it prints what would be run, and answers that the
// transaction of the test is applied.
const stub = `
import json, os
class AnsibleModule:
    check_mode = False
    def __init__(self, **_):
        self.params = {"executable": "mpps", "transaction": os.environ["TX"], "force": False}
    def run_command(self, argv):
        if "verify" not in argv:
            print(json.dumps(argv))
        result = {"transactions": [{"tx": os.environ["TX"], "changes": []}]}
        return 0, json.dumps({"result": result, "warnings": []}), ""
    def exit_json(self, **_):
        raise SystemExit(0)
`

// TestNamesAreNoOptions: the name of a transaction that begins with a dash is an argument of mpps, and no flag.
func TestNamesAreNoOptions(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	dir := t.TempDir()
	base := filepath.Join(dir, "ansible/module_utils/basic.py")
	must.Do(t, os.MkdirAll(filepath.Dir(base), 0o755))
	must.Do(t, os.WriteFile(base, []byte(stub), 0o644))
	collection := filepath.Join(dir, "ansible_collections/mpps")
	must.Do(t, os.MkdirAll(collection, 0o755))
	must.Do(t, os.Symlink(must.Get(filepath.Abs("../../deploy/ansible"))(t), filepath.Join(collection, "host")))
	for module, want := range map[string]string{
		"confirm":  `["mpps", "--json", "confirm", "--", "--root=/tmp"]`,
		"rollback": `["mpps", "--json", "rollback", "--", "--root=/tmp"]`,
	} {
		cmd := exec.Command(python, "-B", "../../deploy/ansible/plugins/modules/"+module+".py")
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "TX=--root=/tmp")
		out := must.Get(cmd.CombinedOutput())(t)
		must.Equal(t, string(out), want+"\n", "%s", module)
	}
}
