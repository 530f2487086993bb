// Package importer sends many jobs to a server. It reads lines from a source,
// sends them in chunks over a few connections, and knows at each moment up to
// which line everything has been answered: an import that is broken off goes on
// from there. Sending a line again is harmless, since every line is an upsert.
package importer
