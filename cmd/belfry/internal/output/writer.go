package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
)

// View is how items of one kind are shown where not all of an item is: the
// columns of a table and the line of -o name.
type View[T any] struct {
	Columns []Column[T]
	Name    func(T) string
}

// Column is one column of a table.
type Column[T any] struct {
	Header string
	Cell   func(T) string
}

// Writer takes the items of a list one after another. Formats that can be
// written as items come are; the others are written by Close.
type Writer[T any] interface {
	Add(item T) error
	Close() error
}

// NewWriter returns the Writer of a list.
func NewWriter[T any](w io.Writer, f Format, view View[T]) Writer[T] {
	switch f {
	case JSON:
		return &jsonList[T]{w: w}
	case JSONL:
		return &lineList[T]{w: w, line: compactLine[T]}
	case YAML:
		return &yamlList[T]{w: w}
	case Name:
		return &lineList[T]{w: w, line: func(item T) ([]byte, error) { return []byte(Printable(view.Name(item))), nil }}
	default:
		return newTableList(w, view)
	}
}

// One writes a single item: an object rather than a list of one.
func One[T any](w io.Writer, f Format, view View[T], item T) error {
	switch f {
	case JSON:
		text, err := encode(item, "", "  ")
		if err != nil {
			return err
		}
		return line(w, text)
	case YAML:
		text, err := toYAML(item)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	default:
		list := NewWriter(w, f, view)
		if err := list.Add(item); err != nil {
			return err
		}
		return list.Close()
	}
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(v any, prefix, indent string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

func compactLine[T any](item T) ([]byte, error) { return encode(item, "", "") }

func line(w io.Writer, text []byte) error {
	_, err := w.Write(append(text, '\n'))
	return err
}

// lineList is jsonl and name: an item a line.
type lineList[T any] struct {
	w    io.Writer
	line func(T) ([]byte, error)
}

func (l *lineList[T]) Add(item T) error {
	text, err := l.line(item)
	if err != nil {
		return err
	}
	return line(l.w, text)
}

func (l *lineList[T]) Close() error { return nil }

// jsonList is one array, written as items come.
type jsonList[T any] struct {
	w   io.Writer
	any bool
}

func (l *jsonList[T]) Add(item T) error {
	text, err := encode(item, "  ", "  ")
	if err != nil {
		return err
	}
	lead := ",\n  "
	if !l.any {
		lead = "[\n  "
	}
	l.any = true
	_, err = l.w.Write(append([]byte(lead), text...))
	return err
}

func (l *jsonList[T]) Close() error {
	end := "\n]\n"
	if !l.any {
		end = "[]\n"
	}
	_, err := io.WriteString(l.w, end)
	return err
}

// yamlList is one sequence, written as items come.
type yamlList[T any] struct {
	w   io.Writer
	any bool
}

func (l *yamlList[T]) Add(item T) error {
	text, err := toYAML([]T{item})
	if err != nil {
		return err
	}
	l.any = true
	_, err = l.w.Write(text)
	return err
}

func (l *yamlList[T]) Close() error {
	if l.any {
		return nil
	}
	_, err := io.WriteString(l.w, "[]\n")
	return err
}

// tableList needs all rows for the widths of its columns.
type tableList[T any] struct {
	w    io.Writer
	view View[T]
	t    table.Writer
}

func newTableList[T any](w io.Writer, view View[T]) *tableList[T] {
	header := make(table.Row, len(view.Columns))
	for i, c := range view.Columns {
		header[i] = c.Header
	}
	return &tableList[T]{w: w, view: view, t: plainTable(header)}
}

// plainTable has no lines: columns apart, as grep and eyes like it.
func plainTable(header table.Row) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	return t
}

func (l *tableList[T]) Add(item T) error {
	row := make(table.Row, len(l.view.Columns))
	for i, c := range l.view.Columns {
		row[i] = Printable(c.Cell(item))
	}
	l.t.AppendRow(row)
	return nil
}

func (l *tableList[T]) Close() error {
	_, err := fmt.Fprintln(l.w, l.t.Render())
	return err
}
