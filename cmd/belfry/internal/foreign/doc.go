// Package foreign knows when other schedulers fire. Their rules are written down
// here apart from Belfry's own, so that an import can be compared before anything
// is stored:
//
//	Vixie   cron of Unix. A day has to match both day fields when either of them
//	        begins with *, else one of the two. Times that the clock skips run
//	        after the change, one by one; those that it repeats run once, unless
//	        the minute or hour field begins with *; a change of more than three
//	        hours is a new clock, by which nothing is made up for.
//	Robfig  robfig/cron/v3 itself, in which Dkron (with a field of seconds) and
//	        Kubernetes (without) count.
package foreign
