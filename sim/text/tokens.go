// Package text is the simulated model's tokenizer, which is the same for every model,
// and its answers, which follow from a seed and a prompt.
package text

import (
	"math"
	"unicode"
	"unicode/utf8"
)

// The length that a chat's template adds, in tokens.
const (
	MessageTokens = 5 // <|im_start|> role \n ... <|im_end|> \n
	ReplyTokens   = 3 // <|im_start|> assistant \n
)

// The longest tokens, in characters.
const (
	maxLetters = 8
	maxDigits  = 3
)

// Tokens with a meaning of their own; no text has them.
const (
	tokenStart = 1
	tokenEnd   = 2
	tokenEOS   = 3
	firstText  = 16
)

// Tokenize appends the tokens of text to dst. It is deterministic and the same for every
// model: an id is a hash of the token's text.
func Tokenize(dst []uint32, text string) []uint32 {
	for len(text) > 0 {
		n := tokenLen(text)
		dst = append(dst, tokenID(text[:n]))
		text = text[n:]
	}
	return dst
}

func tokenID(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return max(h, firstText)
}

// tokenLen returns the length in bytes of the first token of text, which is not empty.
func tokenLen(text string) int {
	skip := 0
	if text[0] == ' ' && len(text) > 1 && text[1] != ' ' {
		skip = 1
	}
	r, size := utf8.DecodeRuneInString(text[skip:])
	var class func(rune) bool
	limit := 1
	switch {
	case unicode.IsLetter(r) && r < 0x2E80: // beyond it, a character is a word
		class, limit = unicode.IsLetter, maxLetters
	case unicode.IsDigit(r):
		class, limit = unicode.IsDigit, maxDigits
	case unicode.IsSpace(r):
		if skip == 1 {
			return 1 // a space before a line break stands alone
		}
		class, limit = unicode.IsSpace, math.MaxInt
	}
	n := skip + size
	for i := 1; i < limit && n < len(text); i++ {
		r, size := utf8.DecodeRuneInString(text[n:])
		if !class(r) || r >= 0x2E80 {
			break
		}
		// The last space of a run belongs to the word that follows.
		if r == ' ' && n+1 < len(text) && !isSpace(text[n+1:]) {
			break
		}
		n += size
	}
	return n
}

func isSpace(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsSpace(r)
}

// A Message is one turn of a chat.
type Message struct{ Role, Content string }

// Chat returns the prompt that a chat becomes.
func Chat(messages []Message) []uint32 {
	var t []uint32
	for _, m := range messages {
		t = append(t, tokenStart, tokenID(m.Role), tokenID("\n"))
		t = Tokenize(t, m.Content)
		t = append(t, tokenEnd, tokenID("\n"))
	}
	return append(t, tokenStart, tokenID("assistant"), tokenID("\n"))
}
