package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Sources are the places that settings come from.
type Sources struct {
	File    string          // path of a YAML file; "" is none
	Environ func() []string // "NAME=value", as os.Environ
	Flags   *pflag.FlagSet  // with the flags of AddFlags
}

// Value is the winning value of one setting and the layer that it came from.
type Value struct {
	Key    string `json:"key" yaml:"key"`
	Value  string `json:"value" yaml:"value"`
	Origin string `json:"origin" yaml:"origin"` // flag --x, env BELFRY_X, file PATH, default
}

// AddFlags registers a flag for every setting.
func AddFlags(flags *pflag.FlagSet) {
	for _, s := range Settings() {
		if s.Bool {
			flags.Bool(s.Key, s.Default == "true", s.Help)
			continue
		}
		flags.String(s.Key, s.Default, s.Help)
	}
}

// Load reads all layers, checks every value and returns the settings with
// their origins. The error names each bad setting and where it was written.
func Load(src Sources) (Server, []Value, error) {
	layers, err := src.layers()
	if err != nil {
		return Server{}, nil, err
	}
	var (
		server Server
		values []Value
		bad    []error
	)
	for _, s := range Settings() {
		v := pick(s, layers)
		values = append(values, v)
		if err := s.apply(&server, v.Value); err != nil {
			bad = append(bad, fmt.Errorf("%s (%s): %w", s.Key, v.Origin, err))
		}
	}
	if len(bad) == 0 {
		bad = append(bad, checkStore(&server))
	}
	return server, values, errors.Join(bad...)
}

// layer is one source, already read, and how its origin is spelled for a setting.
type layer struct {
	k      *koanf.Koanf
	origin func(Setting) string
}

// layers reads the sources, the strongest first.
func (src Sources) layers() ([]layer, error) {
	flags, environment, defaults := koanf.New(keyDelim), koanf.New(keyDelim), koanf.New(keyDelim)
	if src.Flags != nil {
		if err := flags.Load(posflag.ProviderWithFlag(src.Flags, "", nil, changedFlag), nil); err != nil {
			return nil, fmt.Errorf("read flags: %w", err)
		}
	}
	if err := environment.Load(env.Provider("", env.Opt{Prefix: envPrefix, TransformFunc: envKey, EnvironFunc: src.Environ}), nil); err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	settings, err := src.readFile()
	if err != nil {
		return nil, err
	}
	known := map[string]any{}
	for _, s := range Settings() {
		known[s.Key] = s.Default
	}
	if err := defaults.Load(confmap.Provider(known, ""), nil); err != nil {
		return nil, fmt.Errorf("read defaults: %w", err)
	}
	return []layer{
		{flags, func(s Setting) string { return "flag --" + s.Key }},
		{environment, func(s Setting) string { return "env " + s.Env() }},
		{settings, func(Setting) string { return "file " + src.File }},
		{defaults, func(Setting) string { return "default" }},
	}, nil
}

// keyDelim never occurs in a key: the settings are flat.
const keyDelim = "\x00"

func changedFlag(f *pflag.Flag) (string, any) {
	if !f.Changed {
		return "", nil
	}
	return f.Name, f.Value.String()
}

// envKey takes an empty variable for one that is not set.
func envKey(name, value string) (string, any) {
	if value == "" {
		return "", nil
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "_", "-")), value
}

// readFile reads the file and refuses keys that no setting has: a misspelt key
// would otherwise be a setting that silently does nothing.
func (src Sources) readFile() (*koanf.Koanf, error) {
	k := koanf.New(keyDelim)
	if src.File == "" {
		return k, nil
	}
	if err := k.Load(file.Provider(src.File), yaml.Parser()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read configuration: %s does not exist", src.File)
		}
		return nil, fmt.Errorf("read configuration %s: %w", src.File, err)
	}
	var unknown []string
	for key := range k.Raw() {
		if !slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Key == key }) {
			unknown = append(unknown, fmt.Sprintf("%q", key))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, fmt.Errorf("read configuration %s: unknown key %s; `belfry config view` lists the keys", src.File, strings.Join(unknown, ", "))
	}
	return k, nil
}

func pick(s Setting, layers []layer) Value {
	for _, l := range layers {
		if l.k.Exists(s.Key) {
			return Value{Key: s.Key, Value: text(l.k.Get(s.Key)), Origin: l.origin(s)}
		}
	}
	return Value{Key: s.Key, Value: s.Default, Origin: "default"}
}

// text is a value as it would be written in a flag. YAML lists become lists
// with commas, maps JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = text(item)
		}
		return strings.Join(parts, ",")
	case map[string]any:
		out, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v) // refused with the reason
		}
		return string(out)
	default:
		return fmt.Sprint(v)
	}
}
