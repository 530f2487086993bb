package cql

import (
	"context"
	"strings"
	"sync"
)

// statements are those on partitions and history. Those on nodes name their
// replicas themselves (routed).
var statements = []string{
	selectFence, createFence, neverFence,
	setFence + andEpoch + andOwner + ofFence + ifFence, // acquire
	setFence + andEpoch + ofFence + ifFence,            // barrier
	setFence + andOwner + ofFence + ifFence,            // release
	setFence + andLastNumber + ofFence + ifFence,       // commit
	putRow, deleteRow, putRing,
	selectRows, selectRow, selectJobs, selectSliceJobs, selectDead, selectSliceDead, selectRing, selectSlots,
	selectConstants, createConstants, setConstants, swapConstants,
	putHistory, historyColumns, historyColumns + olderThan, historyColumns + ofExecution,
}

// learnRoutes has the driver find out now where each statement goes. At the first
// use of one it has some server prepare it for that, and lets every call wait for
// that server, whatever their contexts say: one that has fallen silent since would
// hold up all of them for a Config.Timeout. What cannot be found out now is found
// out at the first use.
func (s *Store) learnRoutes(ctx context.Context) {
	var all sync.WaitGroup
	for _, statement := range statements {
		all.Go(func() {
			none := make([]any, strings.Count(statement, "?"))
			_, _ = s.db.Session.Query(statement, none...).WithContext(ctx).GetRoutingKey()
		})
	}
	all.Wait()
}
