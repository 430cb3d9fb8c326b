package quality

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// answered makes the answers to items 0, 1, ... of a text: r right, w wrong, x refused, ?
// unknown, f free (not scored).
func answered(pattern string) (list []Answer) {
	for i, c := range pattern {
		a := Answer{Item: fmt.Sprint(i), Text: new("text " + string(c)), Again: new("text " + string(c))}
		switch c {
		case 'r':
			a.Right = new(true)
		case 'w':
			a.Right = new(false)
		case 'x':
			a.Text, a.Again, a.Refused, a.Right = nil, nil, true, new(false)
		case '?':
			a.Text, a.Again = nil, nil
		}
		list = append(list, a)
	}
	return list
}

func TestSummarize(t *testing.T) {
	list := answered("rrrwx?f")
	list[0].Again = new("text R")
	list[1].Finish = "length"
	s := Summarize(list, 0.95)
	low, high := Share(3, 5, 0.95)
	want := Summary{Items: 7, Scored: 5, Right: 3, Low: low, High: high, Refused: 1, Unknown: 1, Cut: 1, Repeated: 5, Varied: 1}
	if s != want {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
	if _, ok := (&Summary{}).Score(); ok {
		t.Error("nothing has a score")
	}
}

func TestCompare(t *testing.T) {
	base := answered(strings.Repeat("r", 40) + "ww??f")
	other := answered(strings.Repeat("r", 31) + strings.Repeat("w", 8) + "x" + "rw?rf")
	c := Compare(base, other, 1)
	if c.Pairs != 42 || c.Right != 40 || c.Losses != 9 || c.Gains != 1 || c.Texts != 42 || c.Same != 33 {
		t.Errorf("%+v", c)
	}
	if b, o, ok := c.Scores(); !ok || b != 40./42 || o != 32./42 || math.Abs(o-b-c.Difference) > 1e-15 {
		t.Errorf("scores %v and %v", b, o)
	}
	if rate, ok := c.SameRate(); !ok || rate != 33./42 {
		t.Errorf("%v of the texts are the same", rate)
	}
	if want := McNemar(9, 1); c.P != want || c.Verdict != Worse {
		t.Errorf("p %v, %s; want %v, worse", c.P, c.Verdict, want)
	}
	if c.First == nil || *c.First != 5 { // "text r" and "text w"
		t.Errorf("the texts differ first at %v", c.First)
	}
	if c := Compare(other, base, 1); c.Verdict != Better || c.Difference != 8./42 {
		t.Errorf("the other way round: %+v", c)
	}
	// With several comparisons each has a part of the 5 %.
	if c := Compare(base, other, 3); c.Verdict != CannotTell || c.P != McNemar(9, 1) {
		t.Errorf("of three: %+v", c)
	}
	// Equal answers show nothing, and no loss of zero.
	same := Compare(base, base, 1)
	if same.Verdict != CannotTell || same.P != 1 || same.Low >= 0 || same.High <= 0 || same.First != nil {
		t.Errorf("with itself: %+v", same)
	}
	if same.Detectable == nil || *same.Detectable < 0.1 || *same.Detectable > 0.25 {
		t.Errorf("40 pairs show a loss of %v", same.Detectable)
	}
	none := Compare(base, answered("????"), 1)
	_, _, scored := none.Scores()
	if _, known := none.SameRate(); scored || known {
		t.Error("without pairs there are scores")
	}
	if none.Verdict != CannotTell || none.Pairs != 0 || none.Detectable != nil {
		t.Errorf("without pairs: %+v", none)
	}
}

// The position is of characters, not of bytes.
func TestFirstDifference(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "a", 0}, {"ab", "ac", 1}, {"größer", "größe", 5}, {"äb", "äc", 1}, {"a\xff", "a\uFFFD", 1}} {
		if got := FirstDifference(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	half := answered("rw")
	half[1].Again = nil
	if !Whole(answered("rwxf")) || Whole(answered("r?")) || Whole(half) {
		t.Error("not told apart")
	}
}

func TestAnswers(t *testing.T) {
	a := &Answers{Header: Header{Deployment: "d", Label: "vllm", Server: map[string]string{"engine": "vllm"}, Digest: "x"}, List: answered("rwx?f")}
	a.List[0].Tokens = new(3)
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	got, err := ReadAnswers(&b)
	if err != nil {
		t.Fatal(err)
	}
	if s, want := fmt.Sprint(Summarize(got.List, 0.95)), fmt.Sprint(Summarize(a.List, 0.95)); s != want || got.Label != "vllm" || *got.List[0].Tokens != 3 {
		t.Errorf("got %s, want %s", s, want)
	}
	lines := strings.SplitAfter(whole, "\n")
	for name, text := range map[string]string{
		"empty": "", "no header": lines[1], "cut": strings.Join(lines[:4], ""), "half a line": whole[:len(whole)-5],
		"more": whole + lines[1], "another version": strings.Replace(whole, `"quality":1`, `"quality":2`, 1),
	} {
		if _, err := ReadAnswers(strings.NewReader(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
