package job

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// H spreads jobs: it stands for a value of its field that is made from the job's
// id, so that a thousand jobs with "H H * * *" run all over the day, each at the
// same minute every day, on every node and after every restart.
//
//	H           one value of the field; of the day of month, one of 1 to 28
//	H(0-29)     one value of the range
//	H/15        every 15 from one of the first 15 on
//	H(0-29)/10  the same within the range
//
// Each field has a value of its own. Once it has it, H is the number itself.

// spreads tells whether an expression has an H: an element that begins with one.
func spreads(expr string) bool {
	start := true
	for i, c := range []byte(expr) {
		switch {
		case (c == 'H' || c == 'h') && start:
			return true
		case i == 0 && c == '@':
			return false
		}
		start = c == ' ' || c == '\t' || c == ','
	}
	return false
}

// resolve writes the values of a job in place of each H of a field, in lower
// case.
func (r *fieldRule) resolve(text, jobID string) (string, error) {
	if !spreads(text) {
		return text, nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		if part == "" || part[0] != 'h' {
			continue
		}
		values, err := r.resolveOne(part, jobID)
		if err != nil {
			return "", err
		}
		parts[i] = values
	}
	return strings.Join(parts, ","), nil
}

func (r *fieldRule) resolveOne(part, jobID string) (string, error) {
	base, step, stepped := strings.Cut(part, "/")
	it, err := r.spreadRange(base)
	if err != nil {
		return "", err
	}
	values := it.hi - it.lo + 1
	if stepped {
		if it, err = r.parseStep(it, base, step); err != nil {
			return "", err
		}
	}
	hash := xxhash.Sum64String(jobID + "\x00" + r.name)
	if !stepped {
		return strconv.Itoa(it.lo + int(hash%uint64(values))), nil
	}
	var list []string
	for v := it.lo + int(hash%uint64(min(it.step, values))); v <= it.hi; v += it.step {
		list = append(list, strconv.Itoa(v))
	}
	return strings.Join(list, ","), nil
}

// spreadRange is the values among which an H chooses.
func (r *fieldRule) spreadRange(base string) (fieldItem, error) {
	it := fieldItem{lo: r.min, hi: r.max, step: 1}
	if base == "h" {
		if r == &cronRules[fieldDom] {
			it.hi = 28 // every month has it
		}
		return it, nil
	}
	inner, ok := strings.CutPrefix(base, "h(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !ok || !closed || !strings.Contains(inner, "-") {
		return it, fmt.Errorf("has %s: write H, H(%d-%d), H/2 or H(%d-%d)/2", quote(base), r.min, r.max, r.min, r.max)
	}
	it, err := r.parseRange(inner)
	if it.hi > r.max {
		return it, fmt.Errorf("has %s, which is outside %d-%d for an H", quote(base), r.min, r.max)
	}
	return it, err
}
