// Package check decides whether a run of Belfry kept its promises: it compares
// what was asked for, what the targets received, what the history says, and what
// was done to the system meanwhile.
//
// It shares no code with the product: it imports none of it. It computes by
// itself when a job is due (by walking wall time, minute by minute), takes
// execution ids apart by itself, and knows each promise as a rule with a number.
//
// # From operations to slots
//
// What a user asked for, and was told, divides a job's time into three:
//
//	            call    return                     call    return
//	register ────┼────────┼────────────── delete ───┼────────┼──────────
//	             │  may   │          must           │  may   │  never
//
// A slot that must be is covered by exactly one record; one that may be by at
// most one; one that must never be by none that says that it ran. An operation
// whose outcome nobody knows makes all that follows a may, up to the next one
// that is known.
//
// # Excuses
//
// A delivery is repeated, or late, only where a fault explains it. What explains
// what is said at FaultKind; nothing else is excused.
//
// # The rules
//
//	C1  every slot has exactly one record, of a status that it may have     slots.go
//	C2  nothing is received before its time                            deliveries.go
//	C3  the first delivery comes by its deadline                       deliveries.go
//	C4  one execution id for each job, generation and slot                  slots.go
//	C5  one key for all deliveries of an execution; repeats need a fault deliveries.go
//	C6  nothing after a success that was recorded                      deliveries.go
//	C7  nothing after a delete or a pause                                   slots.go
//	C8  an update: old before, new after, never both                        slots.go
//	C9  a registration in doubt is all or nothing                           slots.go
//	C10 a dependent runs after its upstream's success                       graph.go
//	C11 attempts without holes, not too soon; dead letters                attempts.go
//	C12 the overlap policy holds                                          overlap.go
//	C13 leases: tokens grow, one completion is accepted                    leases.go
//	C14 epochs grow; who lost a partition sends nothing more               owners.go
//	C15 who is cut off is silent                                           owners.go
//	C16 history and reality agree                                      deliveries.go
//	C17 the sum: registered is delivered, skipped, dead or cancelled        slots.go
//	C18 all is as before when the last fault is over                       owners.go
//	C19 one idempotency key, one effect                                     calls.go
//	C20 what was missed is caught up as the policy says                   catchup.go
//	C21 deliveries fit slots also when their labels are ignored        deliveries.go
//	C22 every signature verifies                                       deliveries.go
package check
