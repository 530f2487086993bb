package output

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// toYAML renders an item as YAML by way of its JSON, so that both formats have
// the same names in the same order.
func toYAML(item any) ([]byte, error) {
	text, err := encode(item, "", "")
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("render yaml: %w", err)
	}
	plain(&doc)
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("render yaml: %w", err)
	}
	return buf.Bytes(), nil
}

// plain drops the flow style and the quotes that a document has from being
// JSON. The encoder quotes strings that would read as something else; the words
// that only older readers take for booleans are quoted here.
func plain(n *yaml.Node) {
	n.Style = 0
	switch strings.ToLower(n.Value) {
	case "y", "n", "yes", "no", "on", "off":
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		plain(child)
	}
}
