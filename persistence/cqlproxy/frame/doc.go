// Package frame reads and writes frames of the CQL native protocol, version 4,
// as far as the tests of a store need them: headers, the strings of bodies, the
// requests that carry statements, and errors. It is no driver: values and rows
// stay bytes.
//
// A frame is a header of nine bytes and a body:
//
//	version (1; bit 7: an answer) · flags (1) · stream (2) · opcode (1) · length (4)
//
// The stream id ties an answer to its request; answers may overtake each other.
package frame
