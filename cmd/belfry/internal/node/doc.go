// Package node puts one Belfry process together: the store, the actors, the
// gateway and the listener, and takes them apart again in an order that loses
// nothing.
//
//	start   lock and open the store → compare the cluster's constants → listen
//	        (/readyz is 503) → worker → host: acquire, load and start every
//	        partition → ready
//	stop    /readyz is 503 → no new requests, those under way are answered →
//	        the worker begins nothing new and its calls end, or are cut at the
//	        drain timeout and recorded as unknown → owners stop → the store closes
//
// What a kill leaves at any of these points is what the store has: the next
// start goes on from there.
package node
