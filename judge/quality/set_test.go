package quality

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	set, _, err := Read(strings.NewReader("\xef\xbb\xbf"+`{"prompt": "What is 2 + 2?", "expected": "4"}

{"id": "sky", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sky?"}], "expected": ["blue", "azure"]}
{"id": "pick", "prompt": "Which is a fruit?", "choices": ["car", "apple"], "answer": "apple"}
{"id": "free", "prompt": "Tell a story."}
`), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range set.Items {
		got = append(got, fmt.Sprintf("%s %d %q %q", i.Name, i.Line, i.Match, i.Expected))
	}
	want := `1 1 "number" ["4"]|sky 3 "contains" ["blue" "azure"]|pick 4 "choice" ["B"]|free 5 "" []`
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if got, want := set.Items[2].Messages[0].Content, "Which is a fruit?\nA. car\nB. apple\nAnswer with the letter only."; got != want {
		t.Errorf("a choice is asked as %q, want %q", got, want)
	}
	if len(set.SHA256) != 64 {
		t.Errorf("digest %q", set.SHA256)
	}
	// Fewer items change which are asked, not the digest of the file.
	few, _, err := Read(strings.NewReader(`{"prompt": "a"}`+"\n"+`{"prompt": "b"}`), 1)
	if err != nil || len(few.Items) != 1 {
		t.Errorf("%v, %v", few, err)
	}
}

// The items of docs/quality.md are read as its table says.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/quality.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "<!-- checked: judge/quality.TestPage -->\n```text\n")
	block, _, _ = strings.Cut(block, "```")
	set, _, err := Read(strings.NewReader(block), 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []Match
	for _, i := range set.Items {
		kinds = append(kinds, i.Match)
	}
	if want := []Match{MatchNumber, MatchContains, MatchExact, MatchChoice, MatchNone}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	// Of 200 items, the loss that the page says they show.
	if loss, _ := Detectable(200, 0, Alpha, Power); !strings.Contains(string(page), "200 prompts cannot show a loss below 4 points") || loss < 0.039 || loss > 0.04 {
		t.Errorf("200 prompts show a loss of %v", loss)
	}
}

func TestRead_refuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                                                     `0: no item in it`,
		`{"prompt": "a"`:                                                       `1: unexpected EOF`,
		`{"prompt": "a"} {}`:                                                   `1: more than one value on the line`,
		`{"prompt": "a", "expectd": "b"}`:                                      `1: unknown field "expectd"`,
		"\n" + `{"expected": "b"}`:                                             `2: neither "prompt" nor "messages"`,
		`{"prompt": " "}`:                                                      `1: message 1 is empty`,
		`{"prompt": "a", "messages": []}`:                                      `1: both "prompt" and "messages": only one can be sent`,
		`{"prompt": "a", "expected": "!"}`:                                     `1: the expected answer "!" has no letter and no digit`,
		`{"prompt": "a", "expected": []}`:                                      `1: "expected" has 0 answers: 1 to 32`,
		`{"prompt": "a", "expected": 4}`:                                       `1: "expected" is neither a text nor a list of texts`,
		`{"prompt": "a", "match": "exact"}`:                                    `1: "match" without "expected"`,
		`{"prompt": "a", "answer": "b"}`:                                       `1: "answer" without "choices": write "expected" for a text`,
		`{"prompt": "a", "expected": "b", "match": "number"}`:                  `1: "match": "number" with an expected answer that is no number`,
		`{"prompt": "a", "expected": "b", "match": "choice"}`:                  `1: match "choice": exact, contains or number`,
		`{"prompt": "a", "choices": ["x"], "answer": 0}`:                       `1: "choices" has 1 entries: 2 to 8`,
		`{"prompt": "a", "choices": ["x", "y"]}`:                               `1: "choices" without "answer"`,
		`{"prompt": "a", "choices": ["x", "y"], "answer": 2}`:                  `1: "answer" 2 is none of the choices: write its letter, its number from 0, or its text`,
		`{"prompt": "a", "choices": ["x", "y"], "answer": "C"}`:                `1: "answer" "C" is none of the choices: write its letter, its number from 0, or its text`,
		`{"prompt": "a", "choices": ["x", "y"], "answer": 0, "expected": "x"}`: `1: both "expected" and "choices": an item has one of them`,
		`{"messages": [{"role": "tool", "content": "x"}]}`:                     `1: message 1 has the role "tool": system, developer, user or assistant`,
		`{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}`: `1: the last message is of the assistant: it must be the user's`,
		`{"id": "a", "prompt": "x"}` + "\n" + `{"id": "a", "prompt": "y"}`:                        `2: the id "a" is that of line 1 too`,
		strings.Repeat("{\"prompt\": \"a\"}\n", MaxItems+1):                                       fmt.Sprintf("%d: more than %d items", MaxItems+1, MaxItems),
		`{"prompt": "` + strings.Repeat("a", MaxLineBytes) + `"}`:                                 fmt.Sprintf("1: line over %d bytes", MaxLineBytes),
	} {
		_, line, err := Read(strings.NewReader(text), 0)
		if got := fmt.Sprintf("%d: %v", line, err); got != want {
			t.Errorf("%.60s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// TestRead_null holds that a label that is null is none, and never the first choice.
func TestRead_null(t *testing.T) {
	t.Parallel()
	text := `{"prompt": "Which is a fruit?", "choices": ["car", "apple"], "answer": null}
{"prompt": "a", "expected": null}
{"prompt": "a", "expected": null, "choices": null, "answer": null}
`
	set, _, err := Read(strings.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range set.Items {
		if item.Match != MatchNone || len(item.Expected) != 0 {
			t.Errorf("line %d: %+v", item.Line, item)
		}
	}
	if got, want := set.Items[0].Messages[0].Content, "Which is a fruit?\nA. car\nB. apple\nAnswer with the letter only."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
