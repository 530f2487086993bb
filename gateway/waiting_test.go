package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWaitingSaysWhatFor(t *testing.T) {
	h := Waiting(func() string { return "waiting for the database" }, "v1")
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/healthz": {200, `"version":"v1"`},
		"/readyz":  {503, "waiting for the database"},
		"/v1/jobs": {503, `"code":"not_ready"`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w.Code == 503 && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
}
