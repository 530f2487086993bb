package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

//go:generate go test -run TestOpenAPI -update .

const (
	apiTitle   = "Belfry"
	apiVersion = "1"
)

// OpenAPI is the OpenAPI 3.1 document of the API, indented.
func OpenAPI() ([]byte, error) {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: apiTitle, Version: apiVersion,
			Description: "A distributed job scheduler: register a job once, and it fires every time, on time, whatever machine dies. " +
				"Every answer that is no success is a Problem (RFC 9457). Unknown fields and parameters are refused.",
		},
		Components: &huma.Components{Schemas: registry},
	}
	var none *Gateway
	for _, rt := range none.routes() {
		doc.AddOperation(rt.operation(registry))
	}
	sayMore(registry)
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return append(out, '\n'), nil
}

func (g *Gateway) openapiPage(c *call) error {
	c.write(http.StatusOK, typeJSON, g.openapi)
	return nil
}

// sayMore adds what a Go type cannot say: a target may be a URL alone, and a
// request needs one.
func sayMore(registry huma.Registry) {
	object := *registry.Map()["Target"]
	*registry.Map()["Target"] = huma.Schema{
		Description: "An object, or a URL for short.",
		OneOf:       []*huma.Schema{{Type: "string", Description: "The URL of an HTTP target."}, &object},
	}
	queue := *registry.Map()["QueueTarget"]
	*registry.Map()["QueueTarget"] = huma.Schema{
		Description: "An object, or the name for short.",
		OneOf:       []*huma.Schema{{Type: "string", Description: "The name."}, &queue},
	}
	request := registry.Map()["JobRequest"]
	request.Required = append(request.Required, "target")
}

// bodySchema is the schema of the body; a patch requires nothing.
func (rt *route) bodySchema(registry huma.Registry) *huma.Schema {
	ref := registry.Schema(reflect.TypeOf(rt.body), true, "")
	if rt.method != http.MethodPatch {
		return ref
	}
	patch := *registry.SchemaFromRef(ref.Ref)
	patch.Required = nil
	return &patch
}

// operation describes a route.
func (rt *route) operation(registry huma.Registry) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.name, Summary: rt.summary, Description: rt.details,
		Responses: map[string]*huma.Response{},
	}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, p.document())
	}
	if rt.body != nil {
		schema := rt.bodySchema(registry)
		op.RequestBody = &huma.RequestBody{Required: !rt.bodyOptional, Content: map[string]*huma.MediaType{}}
		for _, kind := range orTypes(rt.bodyTypes) {
			op.RequestBody.Content[kind] = &huma.MediaType{Schema: schema}
		}
	}
	for code, v := range rt.answers {
		op.Responses[strconv.Itoa(code)] = rt.answer(registry, code, v)
	}
	for _, code := range append([]int{400, 429, 500}, rt.errors...) {
		op.Responses[strconv.Itoa(code)] = rt.problem(registry, code)
	}
	return op
}

func orTypes(types []string) []string {
	if types == nil {
		return []string{typeJSON}
	}
	return types
}

func (p param) document() *huma.Param {
	kind := orElse(p.kind, "string")
	schema := &huma.Schema{Type: kind}
	if p.repeats {
		schema = &huma.Schema{Type: "array", Items: &huma.Schema{Type: kind}}
	}
	return &huma.Param{Name: p.name, In: p.in, Description: p.about, Required: p.required, Schema: schema}
}

func (rt *route) answer(registry huma.Registry, code int, v any) *huma.Response {
	r := &huma.Response{Description: http.StatusText(code)}
	if v == nil {
		return r
	}
	r.Content = map[string]*huma.MediaType{
		orElse(rt.answerType, typeJSON): {Schema: registry.Schema(reflect.TypeOf(v), true, rt.name+"Answer")},
	}
	return r
}

func (rt *route) problem(registry huma.Registry, code int) *huma.Response {
	return &huma.Response{
		Description: http.StatusText(code),
		Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: registry.Schema(reflect.TypeFor[api.Problem](), true, "")},
		},
	}
}
