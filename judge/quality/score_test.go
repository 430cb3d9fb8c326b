package quality

import "testing"

func TestScore(t *testing.T) {
	number := Item{Match: MatchNumber, Expected: []string{"1200"}}
	minus := Item{Match: MatchNumber, Expected: []string{"-7"}}
	choice := Item{Match: MatchChoice, Expected: []string{"B"}, Choices: []string{"red", "blue", "dark blue"}}
	word := Item{Match: MatchContains, Expected: []string{"cold", "ice-cold"}}
	exact := Item{Match: MatchExact, Expected: []string{"Cold."}}
	for _, c := range []struct {
		item   Item
		answer string
		want   bool
	}{
		{number, "1200", true},
		{number, "3 x 400 = 1,200.", true}, // the last number, its commas and the full stop
		{number, "1200.0", true},
		{number, "1200, and then 5", false},
		{number, "twelve hundred", false},
		{number, "", false},
		{minus, "the answer is -7", true},
		{minus, "12-7", false}, // a difference, no negative number
		{minus, "7", false},
		{choice, "B", true},
		{choice, "**B**. blue", true},
		{choice, "(B) because A is red", true},
		{choice, "The answer is B.", true},
		{choice, "Answer: A", false},
		{choice, "Blue", true}, // its text, as no letter is named
		{choice, "red or dark blue", false},
		{choice, "Because", false}, // begins with the letter, but is a word
		{choice, "E", false},       // there is no such choice
		{word, "It is COLD!", true},
		{word, "It is scolding.", false},
		{word, "ice cold", true},
		{exact, " cold ", true},
		{exact, "It is cold", false},
	} {
		if got := c.item.Score(c.answer); got == nil || *got != c.want {
			t.Errorf("%s %v: %q is not scored %v", c.item.Match, c.item.Expected, c.answer, c.want)
		}
	}
	if free := (Item{}); free.Score("anything") != nil {
		t.Error("an item without an expected answer is scored")
	}
}
