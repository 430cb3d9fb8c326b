package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

func conversations(turns int) Config {
	c := base()
	c.Conversation.Turns = turns
	c.Prompts.System = "be brief"
	return c
}

// A history is all that was said before, and then one message more.
func TestConversation_history(t *testing.T) {
	c := conversations(3)
	c.Concurrency, c.Requests, c.ThinkTime, c.WarmupRequests = 2, 8, time.Second, 1
	jobs := pull(t, must(t, c), time.Second)
	if len(jobs) != 8 {
		t.Fatalf("%d turns", len(jobs))
	}
	last := map[int]load.Job{}
	var seen []int
	for _, j := range jobs {
		id := j.N - 1
		seen = append(seen, id)
		if j.Turn != id%3 || len(j.Prompt.Turns) != 2*j.Turn+1 || j.Prompt.System != "be brief" {
			t.Errorf("request %d: turn %d with %d messages", j.N, j.Turn, len(j.Prompt.Turns))
		}
		// The last conversation has what is left of the requests.
		if keep := j.Turn < 2 && id != 7; j.KeepAnswer != keep {
			t.Errorf("request %d: keeps its answer: %v", j.N, j.KeepAnswer)
		}
		if j.Turn == 0 {
			if j.At != 0 || j.Prompt.Target == result.Unknown {
				t.Errorf("request %d: begins after %v with the target %d", j.N, j.At, j.Prompt.Target)
			}
		} else {
			before := last[j.Slot]
			want := append(slices.Clone(before.Prompt.Turns), fmt.Sprintf("answer %d", before.N))
			if before.N != j.N-1 || !slices.Equal(j.Prompt.Turns[:len(want)], want) {
				t.Errorf("request %d after %d: %q", j.N, before.N, j.Prompt.Turns)
			}
			if j.At != time.Second || j.Prompt.Target != result.Unknown {
				t.Errorf("request %d: due after %v with the target %d", j.N, j.At, j.Prompt.Target)
			}
		}
		last[j.Slot] = j
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("ids %v", seen)
	}
	w, err := phased(c, result.Warmup)
	if err != nil {
		t.Fatal(err)
	}
	if warm := pull(t, w, 0); len(warm) != 1 || warm[0].N != 0 || warm[0].KeepAnswer {
		t.Errorf("the warm-up is %+v", warm)
	}
}

// A turn that did not complete ends its conversation, and nothing is sent in
// the place of what it would have said.
func TestConversation_ends(t *testing.T) {
	for name, prev := range map[string]result.Request{
		"failed":    {Status: result.Failed, ErrorClass: result.ErrReset},
		"cancelled": {Status: result.Cancelled, Planned: true},
		"silent":    {Status: result.Completed},
	} {
		c := conversations(4)
		c.Concurrency, c.Requests = 1, 8
		s := must(t, c)
		var ids []int
		j, ok := s.Next(0, nil)
		for ok {
			ids = append(ids, j.N)
			p := result.Request{Status: result.Completed, Answer: "yes"}
			if j.N == 1 {
				p = prev
			}
			j, ok = s.Next(0, &p)
		}
		if !slices.Equal(ids, []int{0, 1, 4, 5, 6, 7}) {
			t.Errorf("%s: %v", name, ids)
		}
	}
}

// Whatever fails, no turn is another than it would have been: its id, its place
// and the messages of the user's.
func TestConversation_sameWhateverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := conversations(rapid.IntRange(2, 5).Draw(t, "turns"))
		c.Concurrency = rapid.IntRange(1, 4).Draw(t, "slots")
		if rapid.Bool().Draw(t, "by slot") {
			c.RequestsPerWorker = rapid.IntRange(1, 9).Draw(t, "each")
		} else {
			c.Requests = rapid.IntRange(1, 30).Draw(t, "requests")
		}
		users := func(j *load.Job) string {
			var u []string
			for i := 0; i < len(j.Prompt.Turns); i += 2 {
				u = append(u, j.Prompt.Turns[i])
			}
			return fmt.Sprint(j.Turn, strings.Join(u, "|"))
		}
		want := map[int]string{}
		for _, j := range pull2(must(&testing.T{}, c)) {
			want[j.N] = users(&j)
		}
		s := must(&testing.T{}, c)
		prev := make([]*result.Request, c.Concurrency)
		alive := make([]int, c.Concurrency)
		for i := range alive {
			alive[i] = i
		}
		for len(alive) > 0 {
			at := rapid.IntRange(0, len(alive)-1).Draw(t, "slot")
			slot := alive[at]
			j, ok := s.Next(slot, prev[slot])
			if !ok {
				alive = slices.Delete(alive, at, at+1)
				continue
			}
			if want[j.N] != users(&j) {
				t.Fatalf("request %d: %s, want %s", j.N, users(&j), want[j.N])
			}
			delete(want, j.N)
			prev[slot] = &result.Request{Status: result.Completed, Answer: "a"}
			if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				prev[slot].Status = result.Failed
			}
		}
		for n, u := range want {
			if strings.HasPrefix(u, "0") {
				t.Fatalf("the conversation of request %d was never begun", n)
			}
		}
	})
}

// Given conversations are led with their own messages and the server's answers.
func TestConversation_given(t *testing.T) {
	given := func(turns ...string) Entry {
		return Entry{Prompt: load.Prompt{Turns: turns, Target: result.Unknown}}
	}
	c := conversations(3)
	c.Concurrency, c.Requests, c.WarmupRequests = 1, 6, 1
	c.Prompts.InputTokens = 0
	c.Prompts.Entries = []Entry{
		given("warm"),
		given("a", "x", "b", "x", "c", "x", "d"), // longer than asked for
		{Prompt: load.Prompt{Turns: []string{"e"}, Target: result.Unknown}, Turns: []string{"e", "x", "f"}},
		given("g"),
		given("never"),
	}
	var got [][]string
	for _, j := range pull(t, must(t, c), 0) {
		got = append(got, j.Prompt.Turns)
	}
	want := [][]string{
		{"a"},
		{"a", "answer 1", "b"},
		{"a", "answer 1", "b", "answer 2", "c"},
		{"e"},
		{"e", "answer 4", "f"},
		{"g"},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := c.Needed(); n != 4 {
		t.Errorf("%d prompts needed", n)
	}
	c.Requests = 8
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "6 prompts are needed") && !strings.Contains(err.Error(), "prompts are needed") {
		t.Errorf("too few conversations: %v", err)
	}
	c.Requests, c.RequestsPerWorker = 0, 5
	if n := c.Needed(); n != 3 {
		t.Errorf("%d prompts needed by a slot", n)
	}
}

func TestConversation_byTime(t *testing.T) {
	c := conversations(2)
	c.Concurrency, c.Duration, c.ThinkTime = 1, 10*time.Second, time.Second
	var at []time.Duration
	for _, j := range pull(t, must(t, c), time.Second) {
		at = append(at, j.At)
	}
	// Each conversation is 1 s, a pause of 1 s and 1 s: sends at 0, 2, 3, 5, 6, 8, 9.
	if diff := gocmp.Diff([]time.Duration{0, time.Second, 0, time.Second, 0, time.Second, 0}, at); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
