package cqlproxy

import (
	"sync"

	"github.com/belfry-scheduler/belfry/persistence/cqlproxy/frame"
)

// prepared knows the texts of statements by the ids that the server gave them.
type prepared struct {
	mu    sync.Mutex
	texts map[string]string
}

func (p *prepared) learn(id, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.texts == nil {
		p.texts = map[string]string{}
	}
	p.texts[id] = text
}

// textsOf are the texts of statements, by themselves or by their ids.
func (p *prepared) textsOf(statements []frame.Statement) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	texts := make([]string, 0, len(statements))
	for _, s := range statements {
		if s.ID != "" {
			s.Text = p.texts[s.ID]
		}
		texts = append(texts, s.Text)
	}
	return texts
}
