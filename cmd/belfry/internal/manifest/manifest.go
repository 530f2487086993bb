// Package manifest reads definitions of jobs from YAML and JSON: one or many
// documents, lists too. What it reads may be what `jobs get` printed: fields
// that only a server writes are left out.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"gopkg.in/yaml.v3"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Job is one definition: the body of a request, its id, and the jobs that it
// depends on.
type Job struct {
	ID        string
	DependsOn []string
	Body      jsontext.Value
}

// Read takes a file apart. An error names the document.
func Read(text []byte) ([]Job, error) {
	values, err := documents(text)
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for i, v := range values {
		j, err := Request(v)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if j.ID == "" {
			return nil, fmt.Errorf("document %d: it has no job_id, so it is not known which job it is", i+1)
		}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil, errors.New("it defines no job")
	}
	return jobs, nil
}

// Request makes the body of a request of a job as a server or a user wrote it.
func Request(raw jsontext.Value) (Job, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return Job{}, fmt.Errorf("it is no object with the fields of a job: %w", orNil(err))
	}
	for name := range fields {
		if readOnly[name] {
			delete(fields, name)
		}
	}
	var j Job
	if id, ok := fields["job_id"]; ok {
		if err := json.Unmarshal(id, &j.ID); err != nil {
			return Job{}, errors.New("its job_id is not text")
		}
	}
	if ids, ok := fields["depends_on"]; ok {
		_ = json.Unmarshal(ids, &j.DependsOn) // what is no list of ids the server refuses
	}
	body, err := json.Marshal(fields, json.Deterministic(true))
	j.Body = body
	return j, err
}

func orNil(err error) error {
	if err == nil {
		return errors.New("it is null")
	}
	return err
}

// readOnly holds the fields of a job that a request does not have.
var readOnly = func() map[string]bool {
	out := fieldNames(reflect.TypeFor[api.Job]())
	for name := range fieldNames(reflect.TypeFor[api.JobRequest]()) {
		delete(out, name)
	}
	return out
}()

func fieldNames(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[name] = true
		}
	}
	return names
}

// documents are the objects of a text, whichever of the two languages it is in.
func documents(text []byte) ([]jsontext.Value, error) {
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return fromYAML(text)
	}
	values, err := fromJSON(text)
	if err == nil {
		return values, nil
	}
	if values, yamlErr := fromYAML(text); yamlErr == nil { // {a: b} is YAML
		return values, nil
	}
	return nil, err
}

func fromJSON(text []byte) ([]jsontext.Value, error) {
	var out []jsontext.Value
	for dec := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		v, err := dec.ReadValue()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read JSON: %w", err)
		}
		if out, err = flatten(out, v.Clone()); err != nil {
			return nil, err
		}
	}
}

// flatten adds a value, or the items of a list.
func flatten(out []jsontext.Value, v jsontext.Value) ([]jsontext.Value, error) {
	if v.Kind() != '[' {
		return append(out, v), nil
	}
	var items []jsontext.Value
	if err := json.Unmarshal(v, &items); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return append(out, items...), nil
}

func fromYAML(text []byte) ([]jsontext.Value, error) {
	var out []jsontext.Value
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read YAML: %w", err)
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		c := converter{left: maxNodes}
		if err := c.value(doc.Content[0]); err != nil {
			return nil, fmt.Errorf("read YAML: %w", err)
		}
		if out, err = flatten(out, c.buf.Bytes()); err != nil {
			return nil, err
		}
	}
}
