package cassandra

import (
	"bytes"
	_ "embed"
	"math/big"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed files/cassandra.yaml.tmpl
var configText string

//go:embed files/logback.xml
var logbackText []byte

var configTemplate = template.Must(template.New("cassandra.yaml").Option("missingkey=error").Parse(configText))

const (
	configName  = "cassandra.yaml"
	logbackName = "logback.xml"
)

// settings fill the template.
type settings struct {
	Cluster, Home, Address, Seed string
	Token                        string
	ClientPort, PeerPort         int
	Guard                        *Guard // nil: anybody may come
}

// writeFiles writes what a node reads at its start.
func writeFiles(dir string, s settings) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := configTemplate.Execute(&b, s); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, configName), b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, logbackName), logbackText, 0o644)
}

// token is the place of node i of n on the ring of 2^64, evenly spread.
func token(i, n int) string {
	ring := new(big.Int).Lsh(big.NewInt(1), 64)
	t := ring.Mul(ring, big.NewInt(int64(i)))
	t.Div(t, big.NewInt(int64(n)))
	return t.Sub(t, new(big.Int).Lsh(big.NewInt(1), 63)).String()
}
