// Package broker publishes messages: what a job whose target is a NATS subject or
// a Kafka topic does when it is due.
//
// # One message, one attempt
//
//	Set.Publish ──▶ the broker of that name ──▶ Publisher.Publish
//	                   connected at the first use        │
//	                                                     ▼
//	     stored: the broker has acknowledged it ◀── nil, and its receipt
//	     not stored: it refused, or nothing left ◀── *Refused, job.ErrNotSent
//	     unknown ◀── any other error
//
// A publish is acknowledged only when the broker says that the message is stored
// (JetStream's acknowledgement; all in-sync replicas of Kafka). A client repeats
// nothing by itself: each repeat is an attempt that the history shows, under the
// same id and key. Clients buffer nothing while they are not connected.
//
// JetStream recognises a repeat by Nats-Msg-Id within the stream's duplicate
// window (2 minutes by default) and stores it once. Kafka does not: whoever reads
// must look at the key, as an HTTP target does.
//
// # Whose brokers
//
// The operator names the brokers in a file (config.go); jobs refer to them by
// name. A job can therefore neither make a node connect to an address of its
// choice nor learn a password. Every node that makes deliveries needs the same
// file; one that lacks a broker fails the attempt and says so.
//
// # A third kind
//
// is a Publisher, and a line in the table of dialers (set.go).
package broker
