package link

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// database answers one question as ovsdb-server does, after a request of its own.
func database(t *testing.T, answer string) string {
	t.Helper()
	root := t.TempDir()
	socket := filepath.Join(root, ovsdbSocket)
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(`{"id":"echo","method":"echo","params":[]}`))
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = conn.Write([]byte(answer))
	}()
	return root
}

func TestTunnelsOfOpenVSwitch(t *testing.T) {
	all, err := askOVSDB(database(t, `{"id":"mpps","error":null,"result":[`+
		`{"rows":[{"options":["map",[["csum","true"],["key","flow"],["remote_ip","192.0.2.7"]]]},`+
		`{"options":["map",[["local_ip","2001:db8::1"],["remote_ip","2001:db8::7"]]]}]},`+
		`{"rows":[{"options":["map",[["remote_ip","192.0.2.8"]]]},{"options":["map",[["remote_ip","flow"]]]}]},`+
		`{"rows":[]},{"error":"constraint violation"},{"error":"x"}]}`))
	want := map[string][]ends{"gretap": nil, "gre": nil, "geneve": {{remote: netip.MustParseAddr("192.0.2.7")},
		{local: netip.MustParseAddr("2001:db8::1"), remote: netip.MustParseAddr("2001:db8::7")}}}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("got %+v (%v), want %+v", all, err, want)
	}
	for _, answer := range []string{"", "{", `{"id":"mpps","result":null}`, `{"id":"mpps","result":[{"rows":7}]}`} {
		if all, err := askOVSDB(database(t, answer)); err == nil {
			t.Errorf("%q became %+v", answer, all)
		}
	}
	if _, err := askOVSDB(t.TempDir()); err == nil {
		t.Error("no database has an answer")
	}
}
