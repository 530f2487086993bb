package execution

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// vault has a directory with the given files, and variables.
func vault(t *testing.T, files, variables map[string]string) (v *Vault, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Vault{Dir: dir, Getenv: func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}}, dir
}

func TestVaultReadsWhatJobsMayReferTo(t *testing.T) {
	v, dir := vault(t, map[string]string{"token": "from-file\n", "empty": "\n", "large": strings.Repeat("x", maxSecret+1)}, map[string]string{"BELFRY_SECRET_A": "from-env", "HOME": "/root"})
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("stolen"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{"token", "inside"}, {outside, "leads-out"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	for ref, want := range map[string]string{
		"env://BELFRY_SECRET_A": "from-env", "file://" + dir + "/token": "from-file", "file://" + dir + "/inside": "from-file",
	} {
		if got, err := v.read(ref); err != nil || got != want {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	for ref, why := range map[string]string{
		"env://BELFRY_SECRET_B": "no such variable", "env://HOME": "named BELFRY_SECRET_", "file://" + outside: "below the directory", "file://" + dir + "/leads-out": "escapes",
		"file://" + dir + "/absent": "no such file", "file://" + dir + "/empty": "is empty", "file://" + dir + "/large": "more than", "file://" + dir: "below", "file://" + dir + "x/token": "below the directory",
	} {
		if got, err := v.read(ref); err == nil || got != "" {
			t.Errorf("%s: %q, %v: want an error about %q", ref, got, err, why)
		} else if !strings.Contains(err.Error(), why) && why != "below" {
			t.Errorf("%s: %v: want %q", ref, err, why)
		}
	}
	if _, err := (&Vault{}).read("file:///etc/hostname"); err == nil || !strings.Contains(err.Error(), "--secrets-dir") {
		t.Errorf("without a directory: %v", err)
	}
}

// A reference is read for each request, reaches the target, and shows nowhere
// else, whatever the target echoes.
func TestReferredSecretsAreSentAndNeverShown(t *testing.T) {
	v, dir := vault(t, map[string]string{"plain": "s3cret-of-file\n"}, map[string]string{"BELFRY_SECRET_TOKEN": "s3cret-of-env"})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s", r.Header.Get("Authorization"), r.Header.Get("X-Plain"))
	})
	client := target(t, func(c *TargetConfig) { c.Vault = v })
	d := delivery(url, func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) {
		h.Headers = map[string]string{"Authorization": "Bearer env://BELFRY_SECRET_TOKEN", "X-Plain": "file://" + dir + "/plain"}
	})
	r := client.Deliver(t.Context(), d, 1, unbroken)
	if r.GetOutcome() != succeededOutcome || r.GetOutput() != "***|***" {
		t.Fatalf("%v", r)
	}
	if d.GetTarget().GetHttp().GetHeaders()["Authorization"] != "Bearer env://BELFRY_SECRET_TOKEN" {
		t.Error("the delivery itself was changed")
	}
	if err := os.Remove(filepath.Join(dir, "plain")); err != nil {
		t.Fatal(err)
	}
	r = client.Deliver(t.Context(), d, 1, unbroken)
	if r.GetOutcome() != failedOutcome || r.GetSentAt() != 0 || r.GetFinal() || !strings.Contains(r.GetError(), "nothing was sent") || !strings.Contains(r.GetError(), "no such file") {
		t.Fatalf("with a missing secret: %v", r)
	}
}

func TestRequestsAreSignedWithEachKey(t *testing.T) {
	key := func(fill string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
	}
	v, dir := vault(t, map[string]string{"keys": key("new") + "\n" + key("old") + "\n", "short": "whsec_YWJj", "almost": "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 21))), "words": "not base64, but long enough to be a key",
		"many": strings.Repeat(key("k")+"\n", maxSigners+1)}, nil)
	type seen struct {
		header http.Header
		body   []byte
	}
	got := make(chan seen, 10)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, body}
		fmt.Fprint(w, key("new"))
	})
	client := target(t, func(c *TargetConfig) { c.Vault = v })
	signed := func(file string) *belfryv1.Delivery {
		return delivery(url, func(_ *belfryv1.Delivery, h *belfryv1.HTTPTarget) { h.SigningSecretRef = "file://" + dir + "/" + file })
	}
	r := client.Deliver(t.Context(), signed("keys"), 1, unbroken)
	if r.GetOutcome() != succeededOutcome || r.GetOutput() != "***" {
		t.Fatalf("%v", r)
	}
	s := <-got
	for _, fill := range []string{"new", "old"} {
		receiver, err := standardwebhooks.NewWebhook(key(fill))
		if err != nil {
			t.Fatal(err)
		}
		if err := receiver.Verify(s.body, s.header); err != nil {
			t.Errorf("the %s key: %v in %v", fill, err, s.header)
		}
		if err := receiver.Verify(append(s.body, ' '), s.header); err == nil {
			t.Errorf("the %s key verifies another body", fill)
		}
	}
	for file, why := range map[string]string{"short": "24 bytes", "almost": "24 bytes", "words": "keys", "many": "at most 4", "absent": "no such file"} {
		r := client.Deliver(t.Context(), signed(file), 1, unbroken)
		if r.GetOutcome() != failedOutcome || r.GetSentAt() != 0 || !strings.Contains(r.GetError(), why) {
			t.Errorf("%s: %v", file, r)
		}
	}
}
