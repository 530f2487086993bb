package gateway

import (
	"net/http"

	"github.com/belfry-scheduler/belfry/gateway/api"
)

// Waiting answers for a node that has no store yet: /healthz says that the
// process runs, and everything else that it is not ready, why, and when to come
// back.
func Waiting(why func() string, version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r}
		if r.URL.Path == "/healthz" {
			_ = c.answer(http.StatusOK, health{Status: "ok", Version: version})
			return
		}
		c.fail(refuse(api.CodeNotReady, "%s", orElse(why(), "this node does not take requests yet")))
	})
}
