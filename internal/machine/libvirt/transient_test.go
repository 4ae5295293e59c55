package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/domain"
	"mpps/internal/must"
)

// fakeVirsh keeps running guests as files dir/UUID. Without a command it reads some from standard input, echoes each
// as readline does, and prints no line end after echo, as virsh -q. When its input ends it ends the guests that it
// created, as the daemon does when a connection closes.
const fakeVirsh = `
run() {
	case "$1" in
	create*)
		file=${1##*--file }
		eval "file=$file"
		id=$(sed -n 's/.*<uuid>\(.*\)<.*/\1/p' "$file")
		if grep -q refused "$file"; then echo "error: Failed to create domain: refused" >&2; return; fi
		sed "s/type='kvm'/type='kvm' id='3'/" "$file" >$dir/$id
		mine="$mine $id" ;;
	echo*) eval "printf %s ${1#echo }" ;;
	dumpxml*)
		id=${1##*--domain }
		eval "id=$id"
		if [ -e $dir/$id ]; then cat $dir/$id; else echo "error: failed to get domain '$id'" >&2; return 1; fi ;;
	*) echo "error: unknown command: '$1'" >&2 ;;
	esac
}
case "$*" in
*" destroy "*) for id; do :; done; echo $id >>$dir/destroyed; rm $dir/$id; exit ;;
*dumpxml*)
	for last; do :; done
	run "${last%%; echo *}"; code=$?
	echo "${last##*; echo }"
	exit $code ;;
esac
while read -r line; do
	echo "virsh # $line"
	run "$line"
done
for id in $mine; do rm -f $dir/$id; done
`

// newFake returns a virsh, and the directory of its running guests.
func newFake(t *testing.T) (Virsh, string) {
	dir := t.TempDir()
	return Virsh{treetest.Live(t), []string{treetest.Program(t, "dir="+dir+fakeVirsh)}}, dir
}

const uuidA, uuidB = "5f2d1c1a-0c3b-4a55-9e5e-3e1d2c4b5a01", "5f2d1c1a-0c3b-4a55-9e5e-3e1d2c4b5a02"

// definitionFile writes a definition with a mark.
func definitionFile(t *testing.T, name, uuid string, mark *domain.Mark) string {
	d := must.Get(domain.Render(domain.Description{Name: name, UUID: uuid, VCPUs: 1, MemoryKiB: 1 << 20,
		Mark: mark}))(t)
	file := filepath.Join(t.TempDir(), "it's "+name)
	must.Do(t, os.WriteFile(file, d.Bytes(), 0o600))
	return file
}

func guestsIn(t *testing.T, dir string) int {
	found := must.Get(filepath.Glob(dir + "/5f*"))(t)
	return len(found)
}

// TestTransient: guests run as long as they are held; if one does not start, the others end, and the error says why.
func TestTransient(t *testing.T) {
	v, dir := newFake(t)
	a, b := definitionFile(t, "a", uuidA, nil), definitionFile(t, "b", uuidB, nil)
	held := &Transient{virsh: v, uuids: []string{uuidA, uuidB}, said: &tail{}}
	must.Do(t, held.create(t.Context(), []string{a, b}))
	must.Do(t, held.check(t.Context()))
	must.Equal(t, guestsIn(t, dir), 2, "guests run")
	must.Do(t, held.End(t.Context()))
	must.Equal(t, guestsIn(t, dir), 0, "guests run at the end")

	// What a killed mpps leaves is a virsh whose input has ended.
	held = &Transient{virsh: v, uuids: []string{uuidA}, said: &tail{}}
	must.Do(t, held.create(t.Context(), []string{a}))
	must.Do(t, held.to.Close())
	_ = held.holder.Wait()
	must.Equal(t, guestsIn(t, dir), 0, "guests outlived who made them")

	refused := definitionFile(t, "refused", uuidB, nil)
	held = &Transient{virsh: v, uuids: []string{uuidA, uuidB}, said: &tail{}}
	must.Do(t, held.create(t.Context(), []string{a, refused}))
	err := held.check(t.Context())
	must.Say(t, err, "Failed to create domain: refused", "the error")
	must.Do(t, held.End(t.Context()))
}

// TestEndMarked: of guests with the same UUID only the one with the mark of its run is ended.
func TestEndMarked(t *testing.T) {
	mark := domain.Mark{Namespace: "urn:x", Name: "made", Fields: map[string]string{"run": "1"}}
	for name, c := range map[string]struct {
		mark  *domain.Mark
		ended bool
	}{
		"its own":     {&mark, true},
		"nobody's":    {nil, false},
		"another run": {&domain.Mark{Namespace: "urn:x", Name: "made", Fields: map[string]string{"run": "2"}}, false},
		"another":     {&domain.Mark{Namespace: "urn:y", Name: "made", Fields: map[string]string{"run": "1"}}, false},
	} {
		v, dir := newFake(t)
		text := must.Get(os.ReadFile(definitionFile(t, "mpps-e1000", uuidA, c.mark)))(t)
		live := strings.Replace(string(text), "type='kvm'", "type='kvm' id='7'", 1)
		must.Do(t, os.WriteFile(filepath.Join(dir, uuidA), []byte(live), 0o600))
		other, err := v.endMarked(t.Context(), uuidA, mark)
		if err != nil || other == c.ended || (guestsIn(t, dir) == 0) != c.ended {
			t.Errorf("%s: another's %v, %d guests left, %v", name, other, guestsIn(t, dir), err)
		}
		if other, err := v.endMarked(t.Context(), uuidB, mark); other || err != nil {
			t.Errorf("%s: one that does not run: %v %v", name, other, err)
		}
	}
}
