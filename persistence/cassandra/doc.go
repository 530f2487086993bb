// Package cassandra runs the real database for tests: Apache Cassandra as child
// processes of the test binary, on loopback addresses of its own.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(cassandra.Tests(m)) }
//
//	func TestStore(t *testing.T) {
//		db := cassandra.Start(t, 1)
//		store := open(t, db.Hosts(), db.LocalDC())
//		…
//	}
//
// # What it needs
//
// Java 17 and Maven. Maven resolves org.apache.cassandra:cassandra-all with the
// settings of whoever runs the tests; the jars go to $BELFRY_CACHE, or to
// belfry/ in the user's cache directory, once for all test binaries (a file lock
// and a marker see to that). What is missing is named in one line; Need asks
// without starting anything.
//
// # Which server a test gets
//
//	Start(t, 1)     the one server of this test binary, started by its first user
//	Start(t, 3)     three nodes for this test alone, ended with it
//	Own(t, 1)       one node for this test alone, ended with it
//	StartMain(n)    the same for a TestMain or a command
//
// BELFRY_TEST_CQL_HOSTS (host:port,host:port; BELFRY_TEST_CQL_DC is the data
// centre, else datacenter1) names a running ScyllaDB or Cassandra instead. Such a
// server is not killed or paused: a test that asks for it fails and says so.
//
// # Addresses
//
// Every node of a cluster has its own address and the usual ports: node i of a
// cluster is 127.a.b.i, 9042 for clients and 7000 for its peers. a and b come
// from the process id, and a listening socket at 127.a.b.254:7000 claims them for
// the life of the cluster, so the servers of several test binaries never meet.
//
// # Life and death
//
//	java ── starting ──▶ answers STARTUP ──▶ running ──Pause──▶ paused
//	            │                              │  ▲   ◀─Resume──   │
//	            ▼                        Kill, │  │ Restart        │ Kill
//	     error with its log              Stop  ▼  │                │
//	                                        ended ◀────────────────┘
//
// A node is a process in a group of its own, ended by its own pid. It dies with
// the test binary however that ends: the kernel kills it. Nodes start one after
// another, because several that start at once do not find each other; a cluster
// is given to the test only when every node sees all others alive.
//
// Data lies in a directory of the run under the system's temporary directory and
// goes with the cluster. (A check for leaked goroutines inside a single test sees
// one for each node, in (*process).hold; at the end of TestMain there is none.)
// The logs of the nodes stay when a test that used the
// cluster failed, and their path is printed. Directories of runs that were killed
// are swept by the next run.
package cassandra
