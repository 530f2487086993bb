// Package messages is what the parts of Belfry say to each other and what they
// store: the protobuf types of belfry/v1, and the conversions between them and
// the domain of messages/job. It is the only place where both are known.
package messages

//go:generate buf generate
