package gateway

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	belfryv1 "github.com/belfry-scheduler/belfry/messages/belfry/v1"
)

// principal is who asks. Without authentication everybody is one.
const principal = "anonymous"

// identity is the name of a request, made before it is sent for the first time.
type identity struct {
	commandID   string
	fingerprint []byte
	keyed       bool // by the client
	remembered  bool // by the owner, so that the command may be sent again
}

// identify names a request. explicit is the job_id in its body: with one, a key
// is scoped to that job.
func (c *call) identify(explicit string, body []byte) (identity, error) {
	keys := c.r.Header.Values("Idempotency-Key")
	if len(keys) == 0 || c.r.Method != "POST" {
		return identity{commandID: uuid.NewString(), fingerprint: fingerprint(body, false), remembered: c.g.cfg.Remember}, nil
	}
	if err := checkKey(keys); err != nil {
		return identity{}, err
	}
	h := sha256.New()
	for _, part := range []string{principal, c.r.Method, c.r.URL.Path, keys[0], explicit} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return identity{commandID: hex.EncodeToString(h.Sum(nil)), fingerprint: fingerprint(body, true), keyed: true, remembered: true}, nil
}

// checkKey accepts one key of visible ASCII characters.
func checkKey(keys []string) error {
	const location = "header.Idempotency-Key"
	key := keys[0]
	switch {
	case len(keys) > 1:
		return invalid(location, "it is given %d times: send one key", len(keys))
	case key == "":
		return invalid(location, "it is empty: send a value that is new for each new request, such as a UUID, or leave the header out")
	case len(key) > maxKey:
		return invalid(location, "it has %d bytes, and at most %d are allowed: a UUID is enough", len(key), maxKey)
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return invalid(location, "the character at byte %d is not allowed: use visible ASCII characters without blanks", i+1)
		}
	}
	return nil
}

// fingerprint tells two bodies apart. Of a keyed request it is taken over the
// canonical form, so that a client which prints its JSON anew is understood.
func fingerprint(body []byte, keyed bool) []byte {
	if keyed {
		if canon := jsontext.Value(body).Clone(); canon.Canonicalize() == nil {
			body = canon
		}
	}
	sum := sha256.Sum256(body)
	return sum[:]
}

// derivedJobID is the id of a job whose creator left it to us: a function of
// the command, so a repeat names the same job and reaches the same partition.
func (id identity) derivedJobID() string {
	sum := sha256.Sum256([]byte("job of command " + id.commandID))
	u, _ := uuid.FromBytes(sum[:16]) // sixteen bytes are a UUID
	u[6] = u[6]&0x0f | 0x80          // version 8: of our own making
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}

// forJob is the identity of one job's part of a request about many.
func (id identity) forJob(jobID string) identity {
	if !id.keyed {
		id.commandID = uuid.NewString()
		return id
	}
	sum := sha256.Sum256([]byte(id.commandID + "\x00" + jobID))
	id.commandID = hex.EncodeToString(sum[:])
	return id
}

// command makes a command without its action.
func (id identity) command(jobID string) *belfryv1.Command {
	return &belfryv1.Command{Id: id.commandID, Fingerprint: id.fingerprint, JobId: jobID, Keyed: id.remembered}
}
