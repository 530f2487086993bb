// Package cql is the store on ScyllaDB or Apache Cassandra.
package cql
