package manifest

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"gopkg.in/yaml.v3"
)

// maxNodes bounds what aliases may blow a document up to.
const maxNodes = 1_000_000

// converter writes YAML as JSON from its nodes rather than from Go values, so
// that dates stay text, big numbers exact, and a key written twice is seen.
type converter struct {
	buf  bytes.Buffer
	left int
}

func (c *converter) value(n *yaml.Node) error {
	if c.left--; c.left < 0 {
		return fmt.Errorf("line %d: the document is larger than %d values", n.Line, maxNodes)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(n)
	case yaml.SequenceNode:
		return c.sequence(n)
	case yaml.AliasNode:
		return c.value(n.Alias)
	case yaml.ScalarNode:
		return c.scalar(n)
	}
	return fmt.Errorf("line %d: this is no value", n.Line)
}

func (c *converter) mapping(n *yaml.Node) error {
	seen := map[string]bool{}
	c.buf.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			return fmt.Errorf("line %d: a key has to be a plain word", key.Line)
		case seen[key.Value]:
			return fmt.Errorf("line %d: %q is given twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			c.buf.WriteByte(',')
		}
		c.text(key.Value)
		c.buf.WriteByte(':')
		if err := c.value(n.Content[i+1]); err != nil {
			return err
		}
	}
	c.buf.WriteByte('}')
	return nil
}

func (c *converter) sequence(n *yaml.Node) error {
	c.buf.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			c.buf.WriteByte(',')
		}
		if err := c.value(item); err != nil {
			return err
		}
	}
	c.buf.WriteByte(']')
	return nil
}

func (c *converter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		c.buf.WriteString("null")
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		c.buf.WriteString(strconv.FormatBool(b))
	case "!!int", "!!float":
		return c.number(n)
	case "!!str", "!!timestamp":
		c.text(n.Value)
	default:
		return fmt.Errorf("line %d: values of type %s are not part of a job", n.Line, n.ShortTag())
	}
	return nil
}

// number keeps the digits where JSON writes them the same way.
func (c *converter) number(n *yaml.Node) error {
	if v := jsontext.Value(n.Value); v.Kind() == '0' && v.IsValid() {
		c.buf.WriteString(n.Value)
		return nil
	}
	var f float64
	if err := n.Decode(&f); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	text, err := jsontext.AppendFormat(nil, []byte(strconv.FormatFloat(f, 'g', -1, 64)))
	if err != nil {
		return fmt.Errorf("line %d: %s is no number of JSON", n.Line, n.Value)
	}
	c.buf.Write(text)
	return nil
}

func (c *converter) text(s string) {
	quoted, _ := jsontext.AppendQuote(nil, s) // what is no UTF-8 becomes U+FFFD; YAML has none
	c.buf.Write(quoted)
}
