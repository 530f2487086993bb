// Package messages is what the parts of Belfry say to each other and what they
// store: the protobuf types of belfry/v1, and the conversions between them and
// the domain of messages/job. It is the only place where both are known.
//
// # Formats
//
// A format is the number of an agreement about what may stand in stored
// messages. A build knows all formats from 1 to Format. A cluster has one,
// persistence.Cluster.Format: what its nodes write, whatever more they know.
//
// A change of the messages needs the next format when a build that does not
// know it would lose or misread what is written: an owner makes JobState anew
// from its memory at each write, so a field that it does not know is lost. The
// new field, value or row is written only while the cluster's format is that
// high; a field that may be ignored or lost needs no new format.
//
// An upgrade over a new format:
//
//  1. Nodes are replaced one after another. Old and new ones own partitions and
//     read each other's rows, since all write the cluster's format. The way back
//     is the same.
//  2. When every node knows the new format, an operator raises the cluster's
//     (belfry cluster format raise): one conditional write. There is no way back:
//     a build that does not know it refuses to start, persistence.Mismatch, and
//     one that runs gives up what it owns when it hears of it.
//
// A job's row names the format that it was written in, JobState.format, which
// only grows: an owner writes the cluster's, or the highest that it has loaded
// when it has not heard of a raise yet. A row of a format that this build does
// not know is not malformed: it is a *NewerFormat, and is left as it is to nodes
// that know it.
//
// The build tag belfry_next_format makes a build that knows one format more
// than this one, for tests of the upgrade.
package messages

//go:generate buf generate
