package wire

import (
	"encoding/json"
	"math"
	"strconv"

	"sweep.dev/sweep/result"
)

// usage is what a server says it has read and written; Unknown if it does not.
type usage struct{ prompt, cached, completion, reasoning, total int }

var noUsage = usage{result.Unknown, result.Unknown, result.Unknown, result.Unknown, result.Unknown}

// usagePlaces are the paths of an event at which servers put a usage: OpenAI's, Groq's and
// Google's. [choiceUsage] is that of Moonshot, within a choice.
var usagePlaces = [][]string{{"usage"}, {"x_groq", "usage"}, {"usageMetadata"}, {"usage_metadata"}}

const choiceUsage = "usage"

// A counter is one number of a usage: the paths at which servers put it, the usual one first.
type counter struct {
	of    func(*usage) *int
	paths [][]string
}

// counters has the names of OpenAI's Chat Completions and Responses, of DeepSeek, Anthropic,
// SGLang, TGI and Google. The scanner leaves to the decoder what it does not read itself.
var counters = []counter{
	{func(u *usage) *int { return &u.prompt }, [][]string{{"prompt_tokens"}, {"input_tokens"}, {"promptTokenCount"}, {"prompt_token_count"}}},
	{func(u *usage) *int { return &u.cached }, [][]string{{"prompt_tokens_details", "cached_tokens"}, {"input_tokens_details", "cached_tokens"}, {"prompt_cache_hit_tokens"}, {"cache_read_input_tokens"}, {"cached_tokens"}, {"cachedContentTokenCount"}}},
	{func(u *usage) *int { return &u.completion }, [][]string{{"completion_tokens"}, {"output_tokens"}, {"generated_tokens"}, {"candidatesTokenCount"}, {"candidates_token_count"}}},
	{func(u *usage) *int { return &u.reasoning }, [][]string{{"completion_tokens_details", "reasoning_tokens"}, {"output_tokens_details", "reasoning_tokens"}, {"reasoning_tokens"}, {"thoughtsTokenCount"}, {"thoughts_token_count"}}},
	{func(u *usage) *int { return &u.total }, [][]string{{"total_tokens"}, {"totalTokenCount"}, {"total_token_count"}}},
}

// counterNames are the first names of all paths.
var counterNames = func() map[string]bool {
	names := map[string]bool{}
	for _, c := range counters {
		for _, path := range c.paths {
			names[path[0]] = true
		}
	}
	return names
}()

// decodedNames are the members of an event that the scanner leaves to the decoder: of errors
// in their flat forms, and of a usage in another place than OpenAI's, which comes first.
var decodedNames = func() map[string]bool {
	names := map[string]bool{"type": true}
	for _, name := range flatErrors {
		names[name] = true
	}
	for _, path := range usagePlaces[1:] {
		names[path[0]] = true
	}
	return names
}()

// readUsage takes in an object with counts.
func (c *chunk) readUsage(object map[string]any) {
	c.usage = true
	for _, counter := range counters {
		n := counter.of(&c.count)
		for _, path := range counter.paths {
			if v := tokens(at(object, path)); v > 0 || *n < 0 {
				*n = max(*n, v)
			}
			if *n > 0 {
				break
			}
		}
	}
}

// at returns what an object has at a path; nil if it has nothing there.
func at(object map[string]any, path []string) any {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	return object[path[len(path)-1]]
}

// tokens returns a count: a whole number from 0 on, as a float too; else Unknown.
func tokens(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return result.Unknown
	}
	if i, err := strconv.ParseUint(string(n), 10, 31); err == nil {
		return int(i)
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return result.Unknown
	}
	return int(f)
}

// output returns the tokens that a server wrote by its usage, for an answer of which so many
// chunks had text. ok is false if the usage contradicts itself or the chunks. Servers leave the
// reasoning out of their completion tokens (xAI), and what was cached out of those of the
// prompt (Anthropic): the total tells.
func (u *usage) output(chunks int) (n int, ok bool) {
	n = max(0, u.completion)
	reasoning := max(0, u.reasoning)
	switch sum := u.prompt + n; {
	case u.prompt <= 0 || u.total <= 0:
		if reasoning > 0 && chunks > most(n) {
			n += reasoning
		}
	case u.total == sum:
	case reasoning > 0 && u.total == sum+reasoning:
		n += reasoning
	case u.cached > 0 && u.total == sum+u.cached:
	default:
		return n, false
	}
	return n, chunks <= most(n)
}

// most returns how many chunks with text so many tokens may come in: a call of a tool is more
// chunks than tokens by some.
func most(tokens int) int { return tokens + tokens/10 + 3 }
