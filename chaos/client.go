package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"
)

// Record is one element of a job's executions, as the API shows it.
type Record struct {
	ExecutionID  string    `json:"execution_id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	Status       string    `json:"status"`
	Reason       string    `json:"reason"`
	AttemptCount int       `json:"attempt_count"`
	Range        *struct {
		First time.Time `json:"first"`
		Last  time.Time `json:"last"`
		Count int       `json:"count"`
	} `json:"range"`
}

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

func (p *Process) get(path string, into any) (next string, err error) {
	resp, err := http.Get(p.URL() + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return "", fmt.Errorf("GET %s: %s: %s", path, resp.Status, text)
	}
	if m := nextLink.FindStringSubmatch(resp.Header.Get("Link")); m != nil {
		next = m[1]
	}
	return next, json.NewDecoder(resp.Body).Decode(into)
}

// Post sends a small request and wants the status.
func (p *Process) Post(path string, body any, want int) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := http.Post(p.URL()+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != want {
		return fmt.Errorf("POST %s: %s: %s", path, resp.Status, text)
	}
	return nil
}
