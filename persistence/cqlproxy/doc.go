// Package cqlproxy stands between a driver and a CQL server, for tests of what a
// client must get right when the network or the server does not: answers that
// never come although the statement ran, answers that come late, connections
// that break in between.
//
// # Protocol
//
// It reads the frames of version 4 on each connection, and ties answers to
// requests by their stream id. Before a request with statements (QUERY, PREPARE,
// EXECUTE, BATCH) goes on, the test's rule decides what becomes of it:
//
//	               driver        proxy        server
//	Pass             ──── request ──────────▶  runs
//	                 ◀──── answer ───────────
//	Delay(d)         ──── request ──────────▶  runs
//	                 ◀─ d later ─┤◀──────────
//	Swallow          ──── request ──────────▶  runs
//	                             ┤◀──────────         the driver hears nothing
//	Replace(e)       ──── request ──────────▶  runs
//	                 ◀─ ERROR e ─┤◀──────────
//	Cut              ──── request ──────────▶  runs
//	                   ✕ closed ─┤◀──────────
//	Drop             ── request ─┤                    neither hears anything
//	Refuse(e)        ── request ─┤                    the server never hears of it
//	                 ◀─ ERROR e ─┤
//
// Everything else (OPTIONS, STARTUP, events) passes. A statement of an EXECUTE or
// BATCH is known by the PREPARE that went through the same proxy.
//
// The rule is asked about one request at a time, in the order of arrival over all
// connections, so it may use a *rand.Rand without a lock, and the same requests
// in the same order meet the same fate. Action.Then tells the test when an
// action was carried out: after Swallow, that the server has answered and the
// driver will not hear of it.
//
//	p := cqlproxy.Start(t, db.Hosts()[0])
//	executed := make(chan struct{})
//	p.Decide(cqlproxy.Once(cqlproxy.Request.Conditional, cqlproxy.Swallow().Then(func() { close(executed) })))
//
// # Keeping a driver on the proxy
//
// A driver asks the server for the addresses of all nodes and connects to those,
// past the proxy. Two ways keep gocql (scylladb/gocql v1.15.3 too) on it; with
// several nodes there is a proxy for each and both ways take them all. The driver
// goes on routing by token.
//
//	c := gocql.NewCluster(db.Hosts()...)
//	c.ProtoVersion = 4
//	c.Dialer = cqlproxy.Via(p)                  // the driver sees the servers' addresses
//
//	c := gocql.NewCluster(p.Host())
//	c.ProtoVersion = 4
//	c.AddressTranslator = cqlproxy.Translate(p) // the driver sees the proxies' addresses
//
// Via is the stricter one: an address that no proxy stands for cannot be dialled.
// The driver asks an AddressTranslator about every address that it learns, the
// contact points and system.local as well. In front of ScyllaDB set
// DisableShardAwarePort, or connections land on other shards than they asked for.
//
// IgnorePeerAddr concerns only which of the addresses that the server tells is
// taken, and a HostFilter only refuses addresses: neither leads to a proxy.
// DisableInitialHostLookup keeps the driver to the hosts that it was given, but
// takes its routing by token away. Compression (gocql's Compressor) must be off:
// a compressed request cannot be read, and its connection is cut.
package cqlproxy
