// Package config gathers the settings of a server from four layers (flag,
// environment, file, default; the first that names a setting wins) and
// remembers for each setting which layer it came from.
package config
