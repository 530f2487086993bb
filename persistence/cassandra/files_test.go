package cassandra

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	err := writeFiles(dir, settings{
		Cluster: "belfry-test", Home: dir, Address: "127.1.2.3", Seed: "127.1.2.1",
		Token: token(2, 3), ClientPort: clientPort, PeerPort: peerPort,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"listen_address": "127.1.2.3", "rpc_address": "127.1.2.3", "native_transport_port": 9042,
		"storage_port": 7000, "auto_bootstrap": false, "paxos_variant": "v2", "commitlog_sync": "group",
		"commitlog_directory": filepath.Join(dir, "commitlog"),
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	for _, text := range [][]byte{pom, logbackText} {
		if err := wellFormed(text); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

func wellFormed(text []byte) error {
	d := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := d.Token(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// Tokens lie evenly on the ring from -2^63 on.
func TestToken(t *testing.T) {
	for _, c := range []struct {
		i, n int
		want string
	}{
		{0, 1, "-9223372036854775808"},
		{0, 3, "-9223372036854775808"},
		{1, 3, "-3074457345618258603"},
		{2, 3, "3074457345618258602"},
	} {
		if got := token(c.i, c.n); got != c.want {
			t.Errorf("token %d of %d is %s, want %s", c.i, c.n, got, c.want)
		}
	}
}
