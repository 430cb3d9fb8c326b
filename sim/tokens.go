package sim

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"

	"sweep.dev/sweep/sim/core"
)

// Constants of text.
const (
	MessageTokens = 5 // <|im_start|> role \n ... <|im_end|> \n
	ReplyTokens   = 3 // <|im_start|> assistant \n
	StopMedian    = 160
	StopSigma     = 0.6
	maxLetters    = 8
	maxDigits     = 3
)

// Tokens with a meaning of their own; no text has them.
const (
	tokenStart = 1
	tokenEnd   = 2
	tokenEOS   = 3
	firstText  = 16
)

// tokenize splits text into tokens. It is deterministic and the same for every
// model: an id is a hash of the token's text.
func tokenize(dst []uint32, text string) []uint32 {
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

// tokenLen is the length in bytes of the first token of text, which is not empty.
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

type message struct{ role, content string }

// chatTokens is the prompt that a chat becomes.
func chatTokens(messages []message) []uint32 {
	var t []uint32
	for _, m := range messages {
		t = append(t, tokenStart, tokenID(m.role), tokenID("\n"))
		t = tokenize(t, m.content)
		t = append(t, tokenEnd, tokenID("\n"))
	}
	return append(t, tokenStart, tokenID("assistant"), tokenID("\n"))
}

// words are what the model says. All need no escape in JSON and are one token.
var words = strings.FieldsFunc(`the of and to in is that for it as was with be by on not he his but at are this
have from or had an they which one you were all her she there would their we him been has when who will no more
if out so up said what its about than into them can only other time new some could these two may first then do
any like my now over such our man me even most made after also did many off before must well back through years
much where your way down should because long each just state those people too mr how little good world make very
year still see own work men day get here old life both between being under three never know same last another
while us might great go come since against came right take used himself few house use place during high without
again home around small however found part school water number off always away public less almost hand enough far
took head yet system better set told nothing night end called eyes find going look asked later knew point next city
give group toward young days let room word within face order second`, func(r rune) bool { return r == ' ' || r == '\n' })

var wordIDs = func() []uint32 {
	ids := make([]uint32, len(words))
	for i, w := range words {
		ids[i] = tokenID(" " + w)
	}
	return ids
}()

// An answer is what the model will say to one request; it is known in full
// before the first token is computed.
type answer struct {
	seed uint64
	// stopAt is the number of tokens after which it ends by itself; the last of
	// them is the end-of-sequence token. 0 is never.
	stopAt int
	// cut: with stopAt, a stop string ends the text; it and what follows of the
	// last token are not sent.
	cut  int // bytes of text that are sent
	stop string
}

// newAnswer draws an answer from what the request says.
func newAnswer(seed uint64, prompt []uint32, requestSeed uint64) answer {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	binary.LittleEndian.PutUint64(b[:], requestSeed)
	h.Write(b[:])
	for _, t := range prompt {
		binary.LittleEndian.PutUint32(b[:4], t)
		h.Write(b[:4])
	}
	return answer{seed: h.Sum64()}
}

// naturalStop draws the length at which the model stops, at least floor.
func (a *answer) naturalStop(floor int) {
	r := rand.New(rand.NewPCG(a.seed, 1))
	n := int(StopMedian * math.Exp(StopSigma*r.NormFloat64()))
	a.stopAt = max(n, floor, 2)
}

func (a *answer) word(i int) int {
	x := a.seed + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(len(words)))
}

// text is the i-th token as text. The first has no space before it.
func (a *answer) text(i int) string {
	if i == 0 {
		return words[a.word(0)]
	}
	return spaced[a.word(i)]
}

var spaced = func() []string {
	s := make([]string, len(words))
	for i, w := range words {
		s[i] = " " + w
	}
	return s
}()

// token is the i-th token.
func (a *answer) token(i int) uint32 {
	if i+1 == a.stopAt && a.stop == "" {
		return tokenEOS
	}
	return wordIDs[a.word(i)]
}

// stopStrings ends the answer at the first of these strings within its first n
// tokens.
func (a *answer) stopStrings(stops []string, n int) {
	if len(stops) == 0 {
		return
	}
	if a.stopAt > 0 {
		n = min(n, a.stopAt-1)
	}
	longest := 0
	for _, s := range stops {
		longest = max(longest, len(s))
	}
	var text strings.Builder
	for i := range n {
		before := max(0, text.Len()-longest)
		text.WriteString(a.text(i))
		for _, s := range stops {
			if at := strings.Index(text.String()[before:], s); s != "" && at >= 0 {
				a.stopAt, a.stop, a.cut = i+1, s, before+at
				return
			}
		}
	}
}

// piece is what is sent for token i, given how much text was sent before it.
func (a *answer) piece(i, sent int) string {
	if a.stop == "" {
		if i+1 == a.stopAt {
			return "" // end of sequence
		}
		return a.text(i)
	}
	t := a.text(i)
	return t[:max(0, min(len(t), a.cut-sent))]
}

// request makes the core's request of an answer.
func (a *answer) request(prompt []uint32, maxTokens int) core.Request {
	return core.Request{Prompt: prompt, MaxTokens: maxTokens, StopAt: a.stopAt, Token: a.token}
}
