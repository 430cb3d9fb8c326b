package text

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
)

// The natural length of an answer is lognormal. Chat answers of instruction
// models have medians of 100 to 250 tokens in published traces.
const (
	StopMedian = 160 // tokens
	StopSigma  = 0.6
)

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

// An Answer is what the model will say to one request; it is known in full
// before the first token is computed.
type Answer struct {
	seed uint64
	// StopAt is the number of tokens after which it ends by itself; the last of
	// them is the end-of-sequence token. 0 is never.
	StopAt int
	// Stop is the stop string that ends it at StopAt; it and what follows of
	// the last token are not sent. "" if none does.
	Stop string
	cut  int // bytes of text that are sent, with Stop
}

// NewAnswer draws an answer from what the request says.
func NewAnswer(seed uint64, prompt []uint32, requestSeed uint64) Answer {
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
	return Answer{seed: h.Sum64()}
}

// NaturalStop draws the length at which the model stops, at least floor.
func (a *Answer) NaturalStop(floor int) {
	r := rand.New(rand.NewPCG(a.seed, 1))
	n := int(StopMedian * math.Exp(StopSigma*r.NormFloat64()))
	a.StopAt = max(n, floor, 2)
}

func (a *Answer) word(i int) int {
	x := a.seed + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(len(words)))
}

// text returns the i-th token as text. The first has no space before it.
func (a *Answer) text(i int) string {
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

// Token returns the i-th token.
func (a *Answer) Token(i int) uint32 {
	if i+1 == a.StopAt && a.Stop == "" {
		return tokenEOS
	}
	return wordIDs[a.word(i)]
}

// StopStrings ends the answer at the first of these strings within its first n
// tokens.
func (a *Answer) StopStrings(stops []string, n int) {
	if len(stops) == 0 {
		return
	}
	if a.StopAt > 0 {
		n = min(n, a.StopAt-1)
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
				a.StopAt, a.Stop, a.cut = i+1, s, before+at
				return
			}
		}
	}
}

// Piece returns the text to send for token i, given the length of the text sent before.
func (a *Answer) Piece(i, sent int) string {
	if a.Stop == "" {
		if i+1 == a.StopAt {
			return "" // end of sequence
		}
		return a.text(i)
	}
	t := a.text(i)
	return t[:max(0, min(len(t), a.cut-sent))]
}
