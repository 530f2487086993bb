package chaos

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"
)

// Owner is who owns a partition, as the API shows it.
type Owner struct {
	Partition int32  `json:"partition"`
	Node      string `json:"node"`
	Address   string `json:"address"`
	Epoch     int64  `json:"epoch"`
}

// Member is a node of the cluster, as the API shows it.
type Member struct {
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	Address     string `json:"address"`
	State       string `json:"state"`
	Partitions  int    `json:"partitions"`
	// ClockOffset is in milliseconds, against the median of all nodes.
	ClockOffset int64 `json:"clock_offset_ms"`
}

// Refused is an answer that is not the one that was wanted.
type Refused struct {
	What string // method and path
	Code int
	Text string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", r.What, r.Code, http.StatusText(r.Code), r.Text)
}

// api talks to a node. It gives up on one that is silent.
var api = &http.Client{Timeout: 15 * time.Second}

// Import registers jobs, one JSON object each, and returns how many answers
// were good and the first that was not.
func (p *Process) Import(jobs []map[string]any) (good int, firstBad string, err error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	for _, j := range jobs {
		if err := enc.Encode(j); err != nil {
			return 0, "", err
		}
	}
	resp, err := http.Post(p.URL()+"/v1/jobs:import", "application/x-ndjson", &body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	for {
		var line struct {
			Status string          `json:"status"`
			Error  json.RawMessage `json:"error"`
		}
		switch err := dec.Decode(&line); {
		case err == io.EOF:
			return good, firstBad, nil
		case err != nil:
			return good, firstBad, fmt.Errorf("answer of the import: %w", err)
		case len(line.Error) > 0:
			firstBad = string(line.Error)
		default:
			good++
		}
	}
}

var nextLink = regexp.MustCompile(`<([^>]+)>; *rel="next"`)

// Executions reads all records of a job, page by page.
func (p *Process) Executions(job string) ([]Record, error) {
	var all []Record
	path := "/v1/jobs/" + job + "/executions?page_size=500"
	for path != "" {
		var page []Record
		next, err := p.get(path, &page)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		path = next
	}
	return all, nil
}

// Owners is who owns which partition, as this node sees it.
func (p *Process) Owners() (owners []Owner, err error) {
	_, err = p.get("/v1/cluster/partitions", &owners)
	return owners, err
}

// Members are the nodes of the cluster, as this node sees them.
func (p *Process) Members() (members []Member, err error) {
	_, err = p.get("/v1/cluster/members", &members)
	return members, err
}

func (p *Process) get(path string, into any) (next string, err error) {
	resp, err := api.Get(p.URL() + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return "", &Refused{"GET " + path, resp.StatusCode, string(text)}
	}
	if m := nextLink.FindStringSubmatch(resp.Header.Get("Link")); m != nil {
		next = m[1]
	}
	return next, json.NewDecoder(resp.Body).Decode(into)
}

// Post sends a small request and wants the status.
func (p *Process) Post(path string, body any, want int) error {
	return p.post(path, rand.Text(), body, want)
}

// post is Post under a key: repeated under it, at whatever node, it is one
// request.
func (p *Process) post(path, key string, body any, want int) error {
	return p.send(http.MethodPost, path, key, body, want, nil)
}

// send sends a small request, under a key unless that is "", wants the status, and
// reads the answer into a value unless that is nil.
func (p *Process) send(method, path, key string, body any, want int, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, p.URL()+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode != want:
		return &Refused{method + " " + path, resp.StatusCode, string(text)}
	case err != nil || into == nil:
		return err
	}
	return json.Unmarshal(text, into)
}
