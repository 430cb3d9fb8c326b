package executor

// shared is the largest share of the prompts' tokens that a prefix cache can
// know because of what the load itself shares. Nil where the plan lets prompts be
// asked again: of these a cache may know all from the trial before.
func (m *measurement) shared() *float64 {
	c := m.load()
	if len(c.Prompts.Entries) > 0 && c.Prompts.Reuse && !c.Prompts.CacheBust {
		return nil
	}
	sent := 0
	for i := range m.requests {
		if q := &m.requests[i]; q.Measured() && q.Sent >= 0 {
			sent++
		}
	}
	_, most := c.CacheHits(sent, 1)
	return &most
}
