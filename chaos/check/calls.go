package check

// Call is a request under an idempotency key, and what it brought about: the id
// of a job or an execution.
type Call struct {
	Key     string
	Outcome Outcome
	Effect  string
}

// calls is C19: all requests under one key have one effect.
func (c *checker) calls() {
	first := map[string]string{}
	for _, call := range c.Calls {
		if call.Outcome != Accepted {
			continue
		}
		if effect, ok := first[call.Key]; ok && effect != call.Effect {
			c.find("C19", call.Effect, "the key %s made %s and %s", call.Key, effect, call.Effect)
		}
		first[call.Key] = call.Effect
	}
}
