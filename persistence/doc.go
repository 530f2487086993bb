// Package persistence says what Belfry asks of a database: three small
// interfaces, each method with its error promises. The implementations are
// embedded (pebble, one process) and, named by technology, others beside it;
// they do not know each other, and storetest is the one suite that each of
// them passes.
//
// # Protocol
//
// A partition's rows are guarded by its Fence, which lies in the same place as
// the rows. Each write is conditional on the whole fence (epoch, seq, op id)
// and moves it on by one, so the writes of one ownership form an unbroken
// chain, and a write of a former owner finds a fence it does not expect and is
// refused.
//
//	ReadFence ──▶ Acquire (epoch+1) ──▶ Load ──▶ Commit ──▶ Commit … ──▶ Release
//	                                               │ in doubt
//	                                               ▼
//	                              Settle: applied, or dead for ever
//
// A write whose outcome is unknown is never repeated and never reported before
// Settle has ended the doubt: either the batch is in the store, or the epoch
// has been raised past it and its rows go out again, unchanged, under the next.
//
// What each crash leaves: a batch is there as a whole or not at all; an
// acquired partition whose owner died keeps that owner's name, and the next
// one acquires after it.
package persistence
