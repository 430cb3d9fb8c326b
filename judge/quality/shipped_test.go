package quality_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/quality"
)

var update = flag.Bool("update", false, "rewrite the shipped set")

const shipped = "../../plans/quality/short-answers.jsonl"

// line is an item of the shipped set.
type line struct {
	ID       string   `json:"id"`
	Prompt   string   `json:"prompt"`
	Expected string   `json:"expected,omitempty"`
	Choices  []string `json:"choices,omitempty"`
	Answer   string   `json:"answer,omitempty"`
}

// The shipped set is what this file makes, and is read as it is meant: 80 items of
// arithmetic, 60 of words and 60 with choices.
func TestShipped(t *testing.T) {
	var b bytes.Buffer
	var all []line
	sums, short, four := arithmetic(), words(), choices()
	for n := range 20 { // the first items, too, are of every kind
		all = slices.Concat(all, sums[4*n:4*n+4], short[3*n:3*n+3], four[3*n:3*n+3])
	}
	for _, l := range all {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	if *update {
		if err := os.WriteFile(shipped, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(shipped)
	if err != nil || !bytes.Equal(file, b.Bytes()) {
		t.Fatalf("%s is not what -update makes: %v", shipped, err)
	}
	set, err := quality.Open(shipped, 0)
	if err != nil {
		t.Fatal(err)
	}
	count, asked, letters := map[quality.Match]int{}, map[string]bool{}, map[string]int{}
	for _, i := range set.Items {
		count[i.Match]++
		if i.Match == quality.MatchChoice {
			letters[i.Expected[0]]++
		}
		text := i.Messages[0].Content
		if asked[text] {
			t.Errorf("asked twice: %s", text)
		}
		asked[text] = true
		if right := i.Score(i.Expected[0]); right == nil || !*right {
			t.Errorf("%s: its own answer %q is wrong", i.Name, i.Expected[0])
		}
		if right := i.Score(text); i.Match != quality.MatchChoice && *right {
			t.Errorf("%s: repeating the prompt is right", i.Name)
		}
	}
	want := map[quality.Match]int{quality.MatchNumber: 80, quality.MatchContains: 60, quality.MatchChoice: 60}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", count, want)
	}
	// No letter is right so often that always saying it is a good answer.
	if fmt.Sprint(letters) != "map[A:15 B:15 C:15 D:15]" {
		t.Errorf("right letters: %v", letters)
	}
}

// arithmetic is 80 sums, differences, products and questions of two steps.
func arithmetic() (list []line) {
	for n := range 20 {
		a, b, c := 12+7*n, 9+(13*n)%40, 2+n%8
		for _, q := range []struct {
			text  string
			value int
		}{
			{fmt.Sprintf("What is %d + %d?", a, b), a + b},
			{fmt.Sprintf("What is %d - %d?", a+b+4, b), a + 4},
			{fmt.Sprintf("What is %d times %d?", c, 3+(5*n)%17), c * (3 + (5*n)%17)},
			{fmt.Sprintf("Ann has %d apples. She buys %d more and eats %d. How many has she now?", a, b+1, c), a + b + 1 - c},
		} {
			list = append(list, line{
				ID: fmt.Sprintf("arithmetic-%02d", len(list)+1), Prompt: q.text + " Answer with the number only.", Expected: fmt.Sprint(q.value),
			})
		}
	}
	return list
}

// words is 60 questions with one word for an answer.
func words() (list []line) {
	add := func(question, answer string) {
		list = append(list, line{ID: fmt.Sprintf("word-%02d", len(list)+1), Prompt: question + " Answer with one word.", Expected: answer})
	}
	days := strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday Sunday Monday")
	for n := range 7 {
		add("Which day comes after "+days[n]+"?", days[n+1])
	}
	months := strings.Fields("January February March April May June July August September October November December January")
	for n := range 12 {
		add("Which month comes after "+months[n]+"?", months[n+1])
	}
	for pair := range strings.FieldsSeq("hot:cold big:small old:new up:down fast:slow wet:dry day:night open:closed full:empty light:dark left:right") {
		of, is, _ := strings.Cut(pair, ":")
		add("What is the opposite of "+of+"?", is)
	}
	for pair := range strings.FieldsSeq("child:children mouse:mice foot:feet tooth:teeth man:men goose:geese box:boxes city:cities leaf:leaves house:houses") {
		of, is, _ := strings.Cut(pair, ":")
		add("What is the plural of "+of+"?", is)
	}
	for pair := range strings.FieldsSeq("go:went see:saw take:took write:wrote eat:ate sing:sang buy:bought run:ran give:gave fly:flew") {
		of, is, _ := strings.Cut(pair, ":")
		add("What is the past tense of "+of+"?", is)
	}
	for pair := range strings.FieldsSeq("France:Paris Italy:Rome Japan:Tokyo Spain:Madrid Germany:Berlin Greece:Athens Egypt:Cairo Norway:Oslo Portugal:Lisbon Austria:Vienna") {
		of, is, _ := strings.Cut(pair, ":")
		add("What is the capital of "+of+"?", is)
	}
	return list
}

// choices is 60 questions with four choices, the right one at each place equally often.
func choices() (list []line) {
	add := func(question, right string, wrong []string) {
		n := len(list)
		all := slices.Insert(slices.Clone(wrong[:3]), n%4, right)
		list = append(list, line{ID: fmt.Sprintf("choice-%02d", n+1), Prompt: question, Choices: all, Answer: right})
	}
	kinds := []struct {
		name    string
		members []string
	}{
		{"an animal", strings.Fields("horse tiger rabbit sheep camel dolphin")},
		{"a fruit", strings.Fields("banana cherry lemon peach grape mango")},
		{"a colour", strings.Fields("green yellow purple brown grey pink")},
		{"a metal", strings.Fields("iron copper silver zinc lead tin")},
		{"a tool", strings.Fields("hammer screwdriver saw drill wrench pliers")},
	}
	for k, kind := range kinds {
		for n, member := range kind.members {
			var wrong []string
			for i := 1; i <= 3; i++ {
				other := kinds[(k+i)%len(kinds)].members
				wrong = append(wrong, other[(n+i)%len(other)])
			}
			add("Which of these is "+kind.name+"?", member, wrong)
		}
	}
	for n := range 30 {
		base := 40 + 17*n
		numbers := []string{fmt.Sprint(base), fmt.Sprint(base + 9), fmt.Sprint(base - 11), fmt.Sprint(base + 20 + n)}
		if n%2 == 0 {
			add("Which of these numbers is the largest?", numbers[3], numbers[:3])
		} else {
			add("Which of these numbers is the smallest?", numbers[2], []string{numbers[0], numbers[1], numbers[3]})
		}
	}
	return list
}
