// Package client is the HTTP API from the other side: typed calls that carry a
// key so that a repeat is harmless, wait when the server asks to, and answer
// with one of two errors. An *api.Problem is what the server said; an
// *Unreachable means that it said nothing.
package client
