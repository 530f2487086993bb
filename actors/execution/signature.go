package execution

import (
	"fmt"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Bounds of a file of signing keys. Two are in use while one takes the place of
// the other.
const (
	maxSigners = 4
	leastKey   = 24 // bytes, as Standard Webhooks says
)

// signers sign the requests of a job, each with a key of its own; see
// https://www.standardwebhooks.com, "Signature scheme".
type signers []*standardwebhooks.Webhook

// signers reads the keys that a reference names: one a line, base64, with or
// without the prefix whsec_. It also returns the lines, which must not show.
func (v *Vault) signers(ref string) (out signers, keys []string, err error) {
	if ref == "" {
		return nil, nil, nil
	}
	text, err := v.read(ref)
	if err != nil {
		return nil, nil, err
	}
	keys = strings.Fields(text)
	if len(keys) > maxSigners {
		return nil, nil, fmt.Errorf("the secret %s holds %d keys, and at most %d may sign", ref, len(keys), maxSigners)
	}
	for i, key := range keys {
		signer, err := standardwebhooks.NewWebhook(key)
		if err != nil || len(strings.TrimPrefix(key, "whsec_")) < leastKey*4/3 {
			return nil, nil, fmt.Errorf("the secret %s: key %d is not %d bytes or more in base64, such as \"openssl rand -base64 32\" prints", ref, i+1, leastKey)
		}
		out = append(out, signer)
	}
	return out, keys, nil
}

// sign adds the headers of a signed request. Each attempt is signed anew:
// receivers refuse a time that is long past.
func (s signers) sign(r *request, key string, body []byte, now time.Time) error {
	if len(s) == 0 {
		return nil
	}
	all := make([]string, len(s))
	for i, signer := range s {
		var err error
		if all[i], err = signer.Sign(key, now, body); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
	}
	r.field("Webhook-Timestamp", fmt.Sprint(now.Unix()))
	r.field("Webhook-Signature", strings.Join(all, " "))
	return nil
}
