// Receiver is a target for jobs that verifies that a call is from Belfry, and
// does its work once however often it is called.
//
//	export BELFRY_SECRET_HOOK=$(openssl rand -base64 32)
//	go run ./docs/receiver &                          # with the same variable as the server
//	bin/belfry dev &
//	bin/belfry jobs create hook --schedule '@every 5s' --url http://127.0.0.1:9000/ \
//	  --signing-secret-ref env://BELFRY_SECRET_HOOK
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	verifier, err := standardwebhooks.NewWebhook(os.Getenv("BELFRY_SECRET_HOOK"))
	if err != nil {
		log.Fatal("BELFRY_SECRET_HOOK: ", err)
	}
	server := &http.Server{Addr: "127.0.0.1:9000", Handler: newReceiver(verifier, charge), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// charge is the work, which must not be done twice.
func charge(key string, body []byte) error {
	log.Printf("charged for %s: %s", key, body)
	return nil
}

// receiver does the work of each key once. Done keys are kept in memory here. A
// service writes the key into its database in the same transaction as the
// effect, with a unique index, and keeps it longer than the job is retried.
type receiver struct {
	verifier *standardwebhooks.Webhook
	work     func(key string, body []byte) error

	mu   sync.Mutex
	keys map[string]bool // true: done; false: under way
}

func newReceiver(v *standardwebhooks.Webhook, work func(string, []byte) error) *receiver {
	return &receiver{verifier: v, work: work, keys: map[string]bool{}}
}

var errUnderWay = errors.New("this is being worked on")

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 64<<10))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err := r.verifier.Verify(body, req.Header); err != nil {
		http.Error(w, "not signed by Belfry", http.StatusUnauthorized)
		return
	}
	// The signature covers webhook-id, which is the idempotency key.
	switch err := r.once(req.Header.Get("webhook-id"), body); {
	case errors.Is(err, errUnderWay):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests) // ask again
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError) // try again
	default:
		fmt.Fprintln(w, "done")
	}
}

// once does the work unless it is done.
func (r *receiver) once(key string, body []byte) error {
	r.mu.Lock()
	done, known := r.keys[key]
	if !known {
		r.keys[key] = false
	}
	r.mu.Unlock()
	switch {
	case done:
		return nil // the answer of the first time
	case known:
		return errUnderWay
	}
	err := r.work(key, body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		delete(r.keys, key)
		return err
	}
	r.keys[key] = true
	return nil
}
