// Package cluster finds the owner of a partition. A request names a partition;
// the owner is whichever actor holds its fence in the store, and this package
// only knows where that actor was last. A wrong answer here costs a repeat,
// never a wrong write: the fence decides.
//
// On one node every partition is owned here, and the table of Owners is all
// there is to know.
package cluster
