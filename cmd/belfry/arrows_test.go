package main

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/belfry-scheduler/belfry/"

// layers are the packages of the project, by their first folders, with what
// each may import: arrows go one way, as the README draws them. A package may
// always import those of its own layer's subfolders named here.
var layers = map[string][]string{
	"messages/job":         {},
	"messages":             {"messages/job"},
	"actors/wheel":         {},
	"persistence":          {"messages/job"},
	"persistence/embedded": {"persistence", "messages"},
	"persistence/listing":  {"persistence", "messages"},
	"persistence/storetest": {
		"persistence", "messages",
	},
	"cluster":          {"actors", "persistence", "messages"},
	"actors":           {"messages"},
	"actors/partition": {"actors", "actors/wheel", "cluster", "persistence", "persistence/listing", "messages"},
	"actors/execution": {"actors", "cluster", "messages"},
	"actors/queue":     {"actors", "cluster", "messages"},
	"gateway":          {"cluster", "persistence", "persistence/listing", "messages"},
	"chaos/check":      {}, // it judges the others
	"chaos":            {"chaos/check", "gateway", "messages", "cmd", "persistence"},
	"cmd":              {"actors", "actors/partition", "actors/execution", "actors/queue", "gateway", "cluster", "persistence", "persistence/embedded", "messages"},
}

func TestArrows(t *testing.T) {
	// Tests are left out: they may stand anywhere.
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := layerOf(fields[0])
		seen[from] = true
		for _, to := range fields[1:] {
			if !strings.HasPrefix(to, module) {
				continue
			}
			if l := layerOf(to); l != from && !allowed(layers[from], l) {
				t.Errorf("%s imports %s: the arrow from %s to %s does not exist", fields[0], to, from, l)
			}
		}
	}
	for _, must := range []string{"messages/job", "actors/partition", "gateway", "cmd"} {
		if !seen[must] {
			t.Errorf("no package of layer %s was seen: the test looks at nothing", must)
		}
	}
}

// layerOf is the longest layer that a package lies in.
func layerOf(path string) string {
	rest := strings.TrimPrefix(path, module)
	for p := rest; p != "."; {
		if _, ok := layers[p]; ok {
			return p
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	return rest
}

// allowed: whoever may import messages may import its domain too.
func allowed(may []string, to string) bool {
	for _, l := range may {
		if l == to || l == "messages" && to == "messages/job" {
			return true
		}
	}
	return false
}
