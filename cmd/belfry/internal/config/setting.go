package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-scheduler/belfry/messages/job"
)

// Server is the settings of `belfry server`, checked.
type Server struct {
	Store          string         // the kind of store: "embedded" or "cql"
	CQL            CQL            // where the database of the latter is
	Cluster        Cluster        // how the node finds others
	DataDir        string         // where the embedded store lives
	Listen         string         // host:port of the HTTP API
	AllowTargets   []netip.Prefix // addresses that targets may have besides public ones
	AllowPlainHTTP bool           // allows http:// to public addresses
	InsecureNoAuth bool           // allows a listen address off loopback
	SecretsDir     string         // jobs may refer to the files below it; "" is none
	BrokersFile    string         // names the brokers that jobs may publish to; "" is none
	Partitions     int            // fixed when the store is created
	Slots          int            // attempts in flight at once; 0: chosen by the node
	Limits         Limits         // of hosts
	Retention      time.Duration  // how long history is kept
	DrainTimeout   time.Duration  // how long a stop waits for attempts in flight
	LogLevel       slog.Level
	LogFormat      string // "json" or "text"
	NodeName       string // "" is the host's name
	PprofListen    string // "" is off
}

// Setting is one key of the configuration. The same name serves as a flag
// (--data-dir), in the environment (BELFRY_DATA_DIR) and in the file (data-dir).
type Setting struct {
	Key     string
	Default string
	Help    string
	Bool    bool // the flag needs no value
	apply   func(s *Server, value string) error
}

// Env is the name of the environment variable of the setting.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, "-", "_"))
}

const envPrefix = "BELFRY_"

// Settings lists every setting in the order in which help and `config view`
// show them.
func Settings() []Setting {
	return slices.Concat(storeSettings(), cqlSettings(), clusterSettings(), networkSettings(), nodeSettings(), limitSettings())
}

func storeSettings() []Setting {
	return []Setting{
		{Key: "store", Default: "embedded", Help: "where jobs are kept: embedded (in --data-dir) or cql (ScyllaDB or Cassandra, see --cql-hosts)", apply: func(s *Server, v string) error {
			s.Store = v
			if v != "embedded" && v != "cql" {
				return fmt.Errorf("%q is neither embedded nor cql", v)
			}
			return nil
		}},
		{Key: "data-dir", Default: "belfry-data", Help: "directory of the embedded store; made when missing, used by one process at a time", apply: func(s *Server, v string) error {
			s.DataDir = v
			return notEmpty(v)
		}},
		{Key: "partitions", Default: strconv.Itoa(job.DefaultPartitions), Help: "partitions of a new store, a power of two from 16 to 4096; fixed for the life of the store", apply: func(s *Server, v string) (err error) {
			if s.Partitions, err = strconv.Atoi(v); err != nil || !job.ValidPartitions(s.Partitions) {
				return fmt.Errorf("%q is not a power of two from %d to %d", v, job.MinPartitions, job.MaxPartitions)
			}
			return nil
		}},
		{Key: "retention", Default: "720h", Help: "how long history, dead letters and the rows of finished jobs are kept", apply: func(s *Server, v string) (err error) {
			s.Retention, err = duration(v, time.Hour)
			return err
		}},
	}
}

func networkSettings() []Setting {
	return []Setting{
		{Key: "listen", Default: "127.0.0.1:8380", Help: "host:port of the HTTP API; off loopback it needs --insecure-no-auth", apply: func(s *Server, v string) error {
			s.Listen = v
			return notEmpty(v)
		}},
		{Key: "allow-targets", Default: "", Help: "addresses inside your network that jobs may call, as CIDRs: 10.0.0.0/8,127.0.0.1/32; they may be called by http:// too", apply: func(s *Server, v string) (err error) {
			s.AllowTargets, err = prefixes(v)
			return err
		}},
		{Key: "allow-plain-http", Default: "false", Bool: true, Help: "public addresses may be called by http:// too, not only by https://", apply: func(s *Server, v string) (err error) {
			s.AllowPlainHTTP, err = boolean(v)
			return err
		}},
		{Key: "secrets-dir", Default: "", Help: "directory of secrets that jobs may refer to as file:///path, besides the variables BELFRY_SECRET_… of this node (default: no files)", apply: func(s *Server, v string) error {
			s.SecretsDir = v
			if v != "" && !filepath.IsAbs(v) {
				return fmt.Errorf("%q is not absolute, as the paths are by which jobs refer to what is in it", v)
			}
			return nil
		}},
		{Key: "brokers-file", Default: "", Help: "YAML file that names the NATS and Kafka brokers that jobs may publish to; the same on every node (default: none)", apply: func(s *Server, v string) error {
			s.BrokersFile = v
			return nil
		}},
		{Key: "insecure-no-auth", Default: "false", Bool: true, Help: "serve the API off loopback without authentication: whoever reaches the port controls all jobs", apply: func(s *Server, v string) (err error) {
			s.InsecureNoAuth, err = boolean(v)
			return err
		}},
	}
}

func nodeSettings() []Setting {
	return []Setting{
		{Key: "slots", Default: "0", Help: "attempts in flight at once on this node; 0 lets the node choose", apply: func(s *Server, v string) (err error) {
			if s.Slots, err = strconv.Atoi(v); err != nil || s.Slots < 0 || s.Slots > 1<<20 {
				return fmt.Errorf("%q is not a number from 0 to %d", v, 1<<20)
			}
			return nil
		}},
		{Key: "drain-timeout", Default: "90s", Help: "how long a stop waits for attempts in flight", apply: func(s *Server, v string) (err error) {
			s.DrainTimeout, err = duration(v, 0)
			return err
		}},
		{Key: "pprof-listen", Default: "", Help: "loopback address that serves Go's profiles, such as 127.0.0.1:6060 (default: off)", apply: func(s *Server, v string) error {
			s.PprofListen = v
			return nil
		}},
		{Key: "node-name", Default: "", Help: "name of this node in history and logs (default: the host's name)", apply: func(s *Server, v string) error {
			s.NodeName = v
			return nil
		}},
		{Key: "log-level", Default: "info", Help: "debug, info, warn or error", apply: func(s *Server, v string) error {
			if err := s.LogLevel.UnmarshalText([]byte(v)); err != nil {
				return fmt.Errorf("%q is not one of debug, info, warn, error", v)
			}
			return nil
		}},
		{Key: "log-format", Default: "json", Help: "json or text", apply: func(s *Server, v string) error {
			s.LogFormat = v
			if v != "json" && v != "text" {
				return fmt.Errorf("%q is neither json nor text", v)
			}
			return nil
		}},
	}
}

func boolean(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", v)
	}
	return b, nil
}

func notEmpty(v string) error {
	if v == "" {
		return fmt.Errorf("it may not be empty")
	}
	return nil
}

func duration(v string, atLeast time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write it like 90s, 15m or 720h", v)
	}
	if d < atLeast {
		return 0, fmt.Errorf("%s is less than the smallest allowed, %s", v, atLeast)
	}
	return d, nil
}

func prefixes(v string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range strings.Split(v, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR; write it like 10.0.0.0/8, one address as 10.1.2.3/32", text)
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%q has bits beyond its length; write %s", text, p.Masked())
		}
		out = append(out, p)
	}
	return out, nil
}
