package cassandra

import (
	"path/filepath"
	"strings"
)

// Heap of a node: enough for tests, and three fit on a small machine.
const heap = "512m"

// Java 17 keeps these closed; Cassandra reaches into them.
const (
	javaOpens = `
		java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.nio
		java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic
		java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.module
		java.base/jdk.internal.ref java.base/jdk.internal.reflect java.base/jdk.internal.util.jar
		java.base/sun.nio.ch jdk.management/com.sun.management.internal`
	javaExports = `
		java.base/java.lang.ref java.base/jdk.internal.misc java.base/jdk.internal.ref
		java.base/sun.nio.ch java.management.rmi/com.sun.jmx.remote.internal.rmi
		java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.sql/java.sql jdk.unsupported/sun.misc`
)

// A server for tests lives for a minute or two: the second compiler and the
// parallel collector would take from the tests what they never give back. A
// start costs 7 s of processor time so, and 11 s with both.
var (
	javaShortLived = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
	javaMeasured   = []string{"-XX:+UseG1GC"}
)

// javaArgs is the command line of a node, without the java itself.
func javaArgs(jars, dir string, measured bool) []string {
	args := []string{"-Xms128m", "-Xmx" + heap, "-Xss256k", "-XX:+ExitOnOutOfMemoryError", "-Djdk.attach.allowAttachSelf=true"}
	if measured {
		args = append(args, javaMeasured...)
	} else {
		args = append(args, javaShortLived...)
	}
	for _, o := range strings.Fields(javaOpens) {
		args = append(args, "--add-opens", o+"=ALL-UNNAMED")
	}
	for _, e := range strings.Fields(javaExports) {
		args = append(args, "--add-exports", e+"=ALL-UNNAMED")
	}
	return append(args,
		"-Djava.io.tmpdir="+dir,
		"-Dcassandra.config=file://"+filepath.Join(dir, configName),
		"-Dcassandra.storagedir="+dir,
		"-Dcassandra-foreground=yes",
		"-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-Dcassandra.ring_delay_ms=1000",
		"-Dcassandra.superuser_setup_delay_ms=0",
		"-cp", dir+":"+filepath.Join(jars, "*"),
		"org.apache.cassandra.service.CassandraDaemon",
	)
}
