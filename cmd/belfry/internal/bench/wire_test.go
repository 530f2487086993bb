package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWireReadsWhatNetHTTPWrites(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch string(body) {
		case "short":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"key":"`+r.Header.Get("Idempotency-Key")+`"}`)
		case "chunked":
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
		case "empty":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.Error(w, r.Header.Get("Idempotency-Key")+": "+strings.Repeat("y", 10_000), http.StatusTeapot)
		}
	}))
	defer server.Close()
	w, err := dialWire(t.Context(), server.URL, http.MethodPost, "/v1/jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for range 2 {
		for body, want := range map[string]int{"short": 201, "chunked": 200, "empty": 204, "bad": 418} {
			status, problem, err := w.do("k1", []byte(body))
			if err != nil || status != want {
				t.Fatalf("%s: %d, %v", body, status, err)
			}
			if want == 418 && (len(problem) < 10_000 || !strings.HasPrefix(string(problem), "k1: y")) || want != 418 && len(problem) > 0 {
				t.Errorf("%s: kept %.20q…", body, problem)
			}
		}
	}
}

func TestWireSpeaksPlainHTTPOnly(t *testing.T) {
	t.Parallel()
	if _, err := dialWire(t.Context(), "https://localhost", http.MethodPost, "/"); err == nil {
		t.Error("https was accepted")
	}
}
