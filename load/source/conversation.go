package source

import (
	"slices"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// MaxTurns bounds a conversation.
const MaxTurns = 10_000

// A Conversation is how requests follow from each other in a closed loop. Each
// slot leads one after the other. Every turn sends all that was said before it,
// the server's own answers among it, and one message more of the user's: a
// prompt of the load, or the next of a given prompt's own conversation. Think
// time lies between the turns, and none between conversations.
//
// A turn that did not complete, or that answered nothing, ends its conversation:
// its later turns are never sent, and nothing is sent in their place, so that
// what is asked does not depend on what fails. Requests and RequestsPerWorker
// count turns.
type Conversation struct {
	// Turns is how long a conversation is; a given prompt with fewer messages of
	// the user's makes a shorter one. 0 and 1 make single requests.
	Turns int
}

func (c *Config) turns() int { return max(1, c.Conversation.Turns) }

// MeanTurns returns how long the conversations of the load are in the mean; 1 for single
// requests.
func (c *Config) MeanTurns() float64 {
	n := c.Prompts.Count()
	if n == 0 || c.turns() == 1 {
		return float64(c.turns())
	}
	all := 0
	for entry := range n {
		all += c.turnsOf(entry)
	}
	return float64(all) / float64(n)
}

// turnsOf returns the length of the conversation that takes an entry.
func (c *Config) turnsOf(entry int) int {
	n := c.Prompts.Count()
	if n == 0 || c.turns() == 1 {
		return c.turns()
	}
	i := (c.Prompts.First + entry) % n
	if held := len(c.Prompts.Entries); i >= held {
		return min(c.turns(), int(c.Prompts.Rest.Questions[i-held]))
	}
	return min(c.turns(), c.Prompts.Entries[i].questions())
}

// questions is len(Questions()).
func (e *Entry) questions() int {
	return (max(len(e.Turns), len(e.Prompt.Turns)) + 1) / 2
}

// conversations returns how many conversations have so many turns together, the first
// of which takes the entry first, and the turns of the last.
func (c *Config) conversations(turns, first int) (n, last int) {
	if len(c.Prompts.Entries) == 0 || c.turns() == 1 {
		n = (turns + c.turns() - 1) / c.turns()
		return n, turns - (n-1)*c.turns()
	}
	for turns > 0 {
		last = min(turns, c.turnsOf(first+n))
		turns -= last
		n++
	}
	return n, last
}

// led returns how many conversations each slot of a load with RequestsPerWorker needs
// at most.
func (c *Config) led() int {
	if len(c.Prompts.Entries) == 0 || c.turns() == 1 {
		return (c.RequestsPerWorker + c.turns() - 1) / c.turns()
	}
	most := 0
	for slot := range c.Concurrency {
		n := 0
		for left := c.RequestsPerWorker; left > 0; n++ {
			left -= c.turnsOf(c.WarmupRequests + n*c.Concurrency + slot)
		}
		most = max(most, n)
	}
	return most
}

// follow takes in how the slot's last request ended.
func (s *slot) follow(prev *result.Request) {
	s.turn++
	if s.turn >= s.length || prev.Status != result.Completed || prev.Answer == "" {
		s.turn = 0
		return
	}
	s.prompt.Turns = append(s.prompt.Turns, prev.Answer)
}

// ask puts what was said before into a job, and its message to that.
func (s *slot) ask(j *load.Job) {
	if s.turn == 0 {
		// A given prompt may be a whole conversation; its answers are the
		// server's to give.
		j.Prompt.Turns = j.Prompt.Turns[:1]
		s.prompt = load.Prompt{System: j.Prompt.System}
	}
	s.prompt.Turns = append(s.prompt.Turns, j.Prompt.Turns...)
	j.Prompt.System = s.prompt.System
	// The slot goes on appending, so the job must not see beyond its end.
	j.Prompt.Turns = slices.Clip(s.prompt.Turns)
	if s.turn > 0 {
		// How many tokens the server's answers are in its own template is its
		// affair.
		j.Prompt.Target = result.Unknown
	}
	j.KeepAnswer = s.turn+1 < s.length
}
