package text

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokenize(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"Hello, world!", "Hello|,| world|!"},
		{"internationalisation", "internat|ionalisa|tion"},
		{" leading", " leading"},
		{"two  spaces", "two| | spaces"},
		{"line\n\nbreak", "line|\n\n|break"},
		{"12345", "123|45"},
		{"x = 42;", "x| =| 42|;"},
		{"naïve café", "naïve| café"},
		{"東京タワー", "東|京|タ|ワ|ー"},
		{"a東京", "a|東|京"},
		{"tail ", "tail| "},
		{"\xff\xfe", "\xff|\xfe"},
	} {
		var got []string
		for text := c.text; len(text) > 0; {
			n := tokenLen(text)
			got = append(got, text[:n])
			text = text[n:]
		}
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%q: %q, want %q", c.text, g, c.want)
		}
	}
}

// TestTokenize_isAPartition: whatever the text, its tokens are the text, and
// no token is empty.
func TestTokenize_isAPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune(" \n\tab1東.")), 0, 40, -1)).Draw(t, "text")
		n := 0
		for rest := text; len(rest) > 0; n++ {
			k := tokenLen(rest)
			if k < 1 || k > len(rest) {
				t.Fatalf("a token of %d bytes in %q", k, rest)
			}
			rest = rest[k:]
		}
		ids := Tokenize(nil, text)
		if len(ids) != n {
			t.Fatalf("%d ids, %d tokens", len(ids), n)
		}
		for _, id := range ids {
			if id < firstText {
				t.Fatalf("text has the special token %d", id)
			}
		}
	})
}

func TestChat(t *testing.T) {
	a := Chat([]Message{{"system", "Be brief."}, {"user", "one two three"}})
	// "Be| brief|." and "one| two| three"
	if want := 3 + 3 + 2*MessageTokens + ReplyTokens; len(a) != want {
		t.Errorf("%d tokens, want %d", len(a), want)
	}
	b := Chat([]Message{{"system", "Be brief."}, {"user", "four"}})
	common := 0
	for common < len(b) && a[common] == b[common] {
		common++
	}
	if want := 3 + MessageTokens + 3; common != want {
		t.Errorf("the same system prompt gives a common prefix of %d tokens, want %d", common, want)
	}
}

func TestWords(t *testing.T) {
	if len(words) < 200 {
		t.Errorf("only %d words", len(words))
	}
	for _, w := range words {
		if n := len(Tokenize(nil, " "+w)); n != 1 {
			t.Errorf("%q is %d tokens", w, n)
		}
		if b, _ := json.Marshal(w); string(b) != `"`+w+`"` {
			t.Errorf("%q needs an escape in JSON", w)
		}
	}
}

// TestAnswer_isItsTokens: what is sent as text is, tokenized again, what the
// engine generated; a conversation that repeats it hits the prefix cache.
func TestAnswer_isItsTokens(t *testing.T) {
	a := NewAnswer(1, []uint32{1, 2, 3}, 0)
	var text strings.Builder
	var want []uint32
	for i := range 50 {
		text.WriteString(a.text(i))
		want = append(want, a.Token(i))
	}
	got := Tokenize(nil, " "+text.String())
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
