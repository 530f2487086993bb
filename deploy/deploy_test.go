package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// project is what the tests read of a compose file.
type project struct {
	Services map[string]service
	Volumes  map[string]any
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Healthcheck struct{ Test []string }
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
}

const notRun = "# Not run here: no container engine"

func composeFiles(t *testing.T) map[string]project {
	t.Helper()
	names, err := filepath.Glob("compose*.yaml")
	if err != nil || len(names) != 3 {
		t.Fatalf("compose files: %v, %v", names, err)
	}
	all := map[string]project{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(strings.ReplaceAll(string(text), "\n# ", " "), notRun) {
			t.Errorf("%s does not say first that it was not run", name)
		}
		var p project
		if err := yaml.Unmarshal(text, &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = p
	}
	return all
}

// What a compose file names is in it: volumes, services waited for, the
// Dockerfile; and every port is published on loopback only.
func TestComposeFiles(t *testing.T) {
	for name, p := range composeFiles(t) {
		if _, ok := p.Services["belfry"]; !ok {
			t.Errorf("%s has no service belfry", name)
		}
		for who, s := range p.Services {
			checkService(t, name+": "+who, p, s)
		}
	}
}

func checkService(t *testing.T, who string, p project, s service) {
	t.Helper()
	for _, v := range s.Volumes {
		if source, _, _ := strings.Cut(v, ":"); !has(p.Volumes, source) {
			t.Errorf("%s: no volume %s", who, source)
		}
	}
	for _, port := range s.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("%s: port %s is published beyond loopback", who, port)
		}
	}
	for other, d := range s.DependsOn {
		if !has(p.Services, other) || d.Condition != "service_healthy" || len(p.Services[other].Healthcheck.Test) == 0 {
			t.Errorf("%s: waits for %s, %q", who, other, d.Condition)
		}
	}
	if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Test[0] != "CMD" {
		t.Errorf("%s: health check %v", who, s.Healthcheck.Test)
	}
	if s.Build.Dockerfile != "" {
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func has[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

// Every command line of the binary, here and in the Dockerfile, has only
// commands and flags that the binary knows.
func TestCommandLines(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "belfry")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/belfry").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for where, args := range commandLines(t) {
		split := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
		if split < 0 {
			split = len(args)
		}
		help, err := exec.Command(bin, append(slices.Clone(args[:split]), "--help")...).CombinedOutput()
		if err != nil || !strings.Contains(string(help), "belfry "+strings.Join(args[:split], " ")+" [flags]") {
			t.Errorf("%s: no command %v: %v", where, args[:split], err)
		}
		for _, a := range args[split:] {
			flag, _, _ := strings.Cut(a, "=")
			if strings.HasPrefix(flag, "-") && !regexp.MustCompile(`(?m)^\s+(-\w, )?`+flag+`\s`).Match(help) {
				t.Errorf("%s: %v has no flag %s", where, args[:split], flag)
			}
		}
	}
}

// commandLines are those of the binary, without its name.
func commandLines(t *testing.T) map[string][]string {
	t.Helper()
	lines := map[string][]string{"Dockerfile: CMD": dockerfileList(t, "CMD")}
	for name, p := range composeFiles(t) {
		s := p.Services["belfry"]
		lines[name+": command"] = s.Command
		if check := s.Healthcheck.Test; len(check) > 2 && check[1] == dockerfileList(t, "ENTRYPOINT")[0] {
			lines[name+": healthcheck"] = check[2:]
		} else {
			t.Errorf("%s: the health check is %v", name, check)
		}
	}
	return lines
}

// dockerfileList is the list behind an instruction.
func dockerfileList(t *testing.T, instruction string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + instruction + ` (\[.*\])$`).FindStringSubmatch(dockerfile(t))
	if m == nil {
		t.Fatalf("the Dockerfile has no %s", instruction)
	}
	var list []string
	if err := yaml.Unmarshal([]byte(m[1]), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func dockerfile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The image is built with the Go of go.mod, is static, and runs as nobody.
func TestDockerfile(t *testing.T) {
	text := dockerfile(t)
	if !strings.HasPrefix(text, notRun) {
		t.Error("it does not say first that it was not run")
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	for _, want := range []string{"FROM golang:" + version + "-", "CGO_ENABLED=0", "\nFROM scratch\n", "\nUSER 65532:65532\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it has no %q", want)
		}
	}
}
