package echo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/cmd/belfry/internal/echo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, addr string) *echo.Target {
	t.Helper()
	target, err := echo.Start(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := target.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return target
}

func post(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestEcho(t *testing.T) {
	target := start(t, "127.0.0.1:0")
	code, body := post(t, target.URL()+echo.OK)
	var got struct {
		Method, Path, Body string
		Headers            map[string]string
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if code != 200 || got.Method != "POST" || got.Path != "/ok" || got.Body != "hello" || got.Headers["Idempotency-Key"] != "k" {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := post(t, target.URL()+echo.Fail); code != 500 {
		t.Errorf("the failing path answers %d", code)
	}
	if code, _ := post(t, target.URL()+echo.Flaky); code != 200 {
		t.Errorf("the flaky path answers %d to what is no first attempt", code)
	}
}

func TestATakenPortIsNoObstacle(t *testing.T) {
	first := start(t, "127.0.0.1:0")
	second := start(t, strings.TrimPrefix(first.URL(), "http://"))
	if first.URL() == second.URL() {
		t.Errorf("both listen on %s", first.URL())
	}
}
