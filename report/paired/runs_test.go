package paired

import (
	"fmt"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/reporttest"
)

// answersOf returns those of a run whose deployments have the digest and the pattern of their
// answers; nil for none.
func answersOf(t *testing.T, deployments map[string][2]string) *Paired {
	t.Helper()
	dir := t.TempDir()
	for id, a := range deployments {
		reporttest.Answers(t, dir, 1, quality.Answers{
			Header: quality.Header{Deployment: id, Label: "vllm " + id, Digest: a[0]}, List: reporttest.Answered(a[1]),
		})
	}
	p, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func links(ids ...string) (all []Link) {
	for _, id := range ids {
		all = append(all, Link{id, id, "vllm " + id})
	}
	return all
}

// A deployment is compared with the same one of the other run, if both were asked the same.
// What is not has a reason and no figure.
func TestBetween(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("r", 60)
	base := answersOf(t, map[string][2]string{"a": {"s", good}, "b": {"s", good}, "c": {"s", good}, "e": {"s", good}})
	head := answersOf(t, map[string][2]string{"a": {"s", good[:40] + strings.Repeat("w", 20)}, "b": {"s", good[:59] + "w"}, "c": {"other", good}, "d": {"s", good}})
	r := Between(base, head, links("a", "b", "c", "d", "e", "f"))
	var got []string
	for i, item := range r.Items() {
		got = append(got, item.Text)
		got = append(got, item.Below...)
		if id := string("ab"[i]); r.Link(i).Head != id {
			t.Errorf("side %d is of %s, want %s", i, r.Link(i).Head, id)
		}
	}
	got = append(got, r.LeftOut(false)...)
	if text, want := strings.Join(got, "\n"), `vllm a: worse
score 100.0 % -> 66.7 %: -33.3 points (97.5 % interval -47.8 to -21.5); 20 became wrong and 0 right, p = 1.9e-06
66.7 % of the answers are the same text; the others differ first at character 15 (median)
vllm b: cannot tell: with 60 prompts a loss of 14.7 points or more would show (4 times in 5), and no smaller one
score 100.0 % -> 98.3 %: -1.7 points (97.5 % interval -10.6 to +6.2); 1 became wrong and 0 right, p = 1
98.3 % of the answers are the same text; the others differ first at character 15 (median)
quality not compared: the runs asked other prompts, or in another way: vllm c
quality not compared: base has no readable answers to quality prompts: vllm d
quality not compared: head has no readable answers to quality prompts: vllm e
quality not compared: both runs have no readable answers to quality prompts: vllm f`; text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	var cells []string
	for _, f := range r.Grid().Rows[1] {
		cells = append(cells, f.Text)
	}
	if text := strings.Join(cells, "|"); text != "vllm b|cannot tell|60|100.0 %|98.3 %|-1.7 points (97.5 % interval -10.6 to +6.2)|14.7 points|98.3 %|15" {
		t.Errorf("the row is %s", text)
	}
}

// If no deployment can be compared for one reason, that is one sentence. Runs without answers
// have nothing to say.
func TestBetween_none(t *testing.T) {
	t.Parallel()
	asked := func(digest string) *Paired {
		return answersOf(t, map[string][2]string{"a": {digest, "rr"}, "b": {digest, "rr"}})
	}
	for want, sides := range map[string][2]*Paired{
		"[quality not compared: the runs asked other prompts, or in another way]":          {asked("s"), asked("o")},
		"[quality not compared: base has no readable answers to quality prompts]":          {nil, asked("s")},
		"[quality not compared: head has no readable answers to quality prompts]":          {asked("s"), nil},
		"[quality not compared: it is not known whether both runs asked the same prompts]": {asked("s"), asked("")},
	} {
		r := Between(sides[0], sides[1], links("a", "b"))
		if got := fmt.Sprint(r.LeftOut(false)); got != want || len(r.Sides) != 0 {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if r := Between(nil, nil, links("a")); r != nil {
		t.Errorf("without answers: %+v", r)
	}
}
