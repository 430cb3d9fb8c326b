package syntax

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// The bounds on a file. The YAML library has none of its own: its parser
// recurses without a limit, expands aliases without a limit, and takes time
// that grows with the square of a mapping's keys, so that one megabyte can
// cost minutes and gigabytes. Each bound is checked before the work that it
// bounds.
const (
	MaxBytes   = 1 << 20 // of the file
	MaxDepth   = 64      // mappings and lists inside each other
	MaxAliases = 200
	MaxNodes   = 50_000 // values and keys, aliases counted in full
	MaxKeys    = 5_000  // of all mappings of a file together

	// maxMarks bounds the bytes that can start or end a token, before any
	// token exists: a token costs some 200 bytes of memory. Text of a prompt
	// contains them too, one in forty or so.
	maxMarks = 150_000
)

// checkBytes looks at the raw bytes.
func checkBytes(r *Report, src *Source, text string) bool {
	top := Span{1, 1, 2}
	if len(text) > MaxBytes {
		r.At(src, top, "too-large", "the file has more than %d bytes", MaxBytes)
		return false
	}
	if !utf8.ValidString(text) {
		for i, line := range src.lines {
			if !utf8.ValidString(line) {
				at := strings.IndexFunc(line, func(c rune) bool { return c == utf8.RuneError })
				col := utf8.RuneCountInString(line[:max(at, 0)]) + 1
				r.At(src, Span{i + 1, col, col + 1}, "encoding", "the file is not UTF-8")
				return false
			}
		}
	}
	for i, line := range src.lines {
		at := strings.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
		if at >= 0 {
			col := utf8.RuneCountInString(line[:at]) + 1
			r.At(src, Span{i + 1, col, col + 1}, "encoding", "control character %U", line[at])
			return false
		}
	}
	marks := 0
	for i := range len(text) {
		switch text[i] {
		case ',', ':', '[', ']', '{', '}', '\n', '-', '?', '&', '*', '!', '"', '\'':
			marks++
		}
	}
	if marks > maxMarks {
		r.At(src, top, "too-large", "the file has more than %d punctuation characters and lines", maxMarks)
		return false
	}
	return true
}

// checkTokens looks at the tokens, before the parser recurses over them.
func checkTokens(r *Report, src *Source, tokens token.Tokens) bool {
	var (
		flow    int   // brackets that are open
		block   []int // columns of the block structures that are open
		run     int   // tags and anchors in a row, each of which is a level to the parser
		aliases int
		keys    int
		prev    *token.Token
	)
	open := func(col int) {
		for len(block) > 0 && block[len(block)-1] > col {
			block = block[:len(block)-1]
		}
		if len(block) == 0 || block[len(block)-1] < col {
			block = append(block, col)
		}
	}
	for _, tk := range tokens {
		switch tk.Type {
		case token.CommentType:
			continue
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			if flow == 0 {
				open(tk.Position.Column)
			}
		case token.MappingValueType:
			if keys++; keys > MaxKeys {
				r.At(src, tokenSpan(tk), "too-large", "the file has more than %d keys", MaxKeys)
				return false
			}
			if flow == 0 && prev != nil {
				open(prev.Position.Column)
			}
		case token.AliasType:
			if aliases++; aliases > MaxAliases {
				r.At(src, tokenSpan(tk), "too-many-aliases", "the file has more than %d aliases", MaxAliases)
				return false
			}
		case token.TagType, token.AnchorType:
			if run++; run > 4 {
				r.At(src, tokenSpan(tk), "too-deep", "too many tags or anchors on one value")
				return false
			}
		}
		if tk.Type != token.TagType && tk.Type != token.AnchorType && (prev == nil || prev.Type != token.AnchorType) {
			run = 0
		}
		if flow+len(block) > MaxDepth {
			r.At(src, tokenSpan(tk), "too-deep", "mappings and lists are nested more than %d deep", MaxDepth)
			return false
		}
		prev = tk
	}
	return true
}
