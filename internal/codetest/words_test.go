package codetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// wordList is the list of words that the project does not use.
const wordList = "words.txt"

// own are the places that the list does not hold for: the list itself, its test,
// words that are data, and texts of others.
var own = map[string]bool{
	"internal/codetest/words_test.go": true,
	"load/source/words.go":            true, // the vocabulary of prompts
}

// A rule is one line of the list.
type rule struct {
	line    string         // as it is written, without the scope
	name    bool           // for names that Go code declares alone
	doc     bool           // for comments and Markdown alone
	instead string         // what to write
	first   []string       // the first word of each phrase, in lower case
	text    *regexp.Regexp // any of the phrases
	here    *regexp.Regexp // any of the phrases, at the beginning of a text
}

// rules reads the list.
func rules(t *testing.T, text string) (list []rule) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		phrases, instead, ok := strings.Cut(line, "->")
		if !ok {
			t.Fatalf("%s: no -> in %q", wordList, line)
		}
		r := rule{line: strings.TrimSpace(phrases), instead: strings.TrimSpace(instead)}
		r.line, r.name = strings.CutPrefix(r.line, "name:")
		r.line, r.doc = strings.CutPrefix(r.line, "doc:")
		var forms []string
		for phrase := range strings.SplitSeq(r.line, "|") {
			words := strings.Fields(phrase)
			if len(words) == 0 || r.instead == "" {
				t.Fatalf("%s: an empty side in %q", wordList, line)
			}
			r.first = append(r.first, strings.ToLower(words[0]))
			for i, w := range words {
				words[i] = regexp.QuoteMeta(w)
			}
			// Between two words of a comment there may be the start of its next line.
			form := strings.Join(words, `(?:\s+(?://|#|>)?\s*)`)
			if strings.ToLower(phrase) == phrase {
				form = "(?i:" + form + ")"
			}
			forms = append(forms, form)
		}
		any := `(?:` + strings.Join(forms, "|") + `)\b`
		r.text, r.here = regexp.MustCompile(`\b`+any), regexp.MustCompile(`^`+any)
		list = append(list, r)
	}
	return list
}

// uses returns where a text breaks a rule, as line and the words found.
func uses(list []rule, name, text string) (found []use) {
	lower := lowered(text)
	isGo := strings.HasSuffix(name, ".go")
	var declarations []declaration
	if isGo {
		declarations = declared(name, text)
	}
	for _, r := range list {
		at := r.candidates(lower)
		if len(at) == 0 {
			continue
		}
		found = append(found, r.names(declarations)...)
		if r.name || r.doc && !isGo && !strings.HasSuffix(name, ".md") {
			continue
		}
		end := 0
		for _, i := range at {
			if i < end || i > 0 && wordByte(text[i-1]) {
				continue
			}
			m := r.here.FindStringIndex(text[i:])
			if m == nil {
				continue
			}
			end = i + m[1]
			if r.doc && isGo && !inComment(text[:i]) {
				continue
			}
			found = append(found, use{1 + strings.Count(text[:i], "\n"), strings.Join(strings.Fields(text[i:end]), " "), r.instead})
		}
	}
	return found
}

// lowered returns a text with small letters for A to Z: every byte stays where it is.
func lowered(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// candidates returns where a text in lower case has the first word of a phrase, in order.
// A search for words is much cheaper than one for the phrases.
func (r rule) candidates(lower string) (at []int) {
	for _, word := range r.first {
		for from := 0; ; {
			i := strings.Index(lower[from:], word)
			if i < 0 {
				break
			}
			at = append(at, from+i)
			from += i + 1
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// wordByte reports whether a word goes on over c, as \b of a pattern has it.
func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

type use struct {
	line          int
	said, instead string
}

// inComment reports whether the last line of a text has a comment begun.
func inComment(before string) bool {
	return strings.Contains(before[strings.LastIndexByte(before, '\n')+1:], "//")
}

// A declaration is a name that a Go file declares.
type declaration struct {
	line        int
	name, words string
}

// names returns the declared names with a word of the rule in them.
func (r rule) names(declarations []declaration) (found []use) {
	for _, d := range declarations {
		if (r.name || d.words != strings.ToLower(d.name)) && r.text.MatchString(d.words) {
			found = append(found, use{d.line, d.name, r.instead})
		}
	}
	return found
}

// declared returns the names that a Go file declares.
func declared(name, text string) (list []declaration) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says it better
	}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id != nil {
				list = append(list, declaration{set.Position(id.Pos()).Line, id.Name, split(id.Name)})
			}
		}
	}
	add(file.Name)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					id, _ := e.(*ast.Ident)
					add(id)
				}
			}
		}
		return true
	})
	return list
}

// split returns the words of a name in lower case: "a kept pod" of aKeptPod.
func split(name string) string {
	var b strings.Builder
	var last rune
	for _, c := range name {
		switch {
		case c == '_':
			b.WriteByte(' ')
		case unicode.IsUpper(c) && !unicode.IsUpper(last):
			b.WriteByte(' ')
			b.WriteRune(unicode.ToLower(c))
		default:
			b.WriteRune(unicode.ToLower(c))
		}
		last = c
	}
	return strings.TrimSpace(b.String())
}

// texts are the files that people read or write, by how their names end.
var texts = []string{".go", ".md", ".yaml", ".yml", ".json", ".sh", ".py", ".bash"}

func TestWords(t *testing.T) {
	text, err := os.ReadFile(wordList)
	if err != nil {
		t.Fatal(err)
	}
	list := rules(t, string(text))
	root := filepath.Join("..", "..")
	// Recordings are left out, and what the tests of their packages hold.
	runs := func(rel string) bool { return path.Base(rel) == "runs" }
	files := filesOf(t, root, runs, func(rel string) bool { return !own[rel] && slices.Contains(texts, filepath.Ext(rel)) })
	for _, rel := range files {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range uses(list, rel, string(data)) {
			t.Errorf("%s:%d: %q: write %q (internal/codetest/%s)", rel, u.line, u.said, u.instead, wordList)
		}
	}
}

func TestUses(t *testing.T) {
	list := rules(t, `
		# a comment
		mend | mends -> fix
		name: letter -> message
		doc: crowd   -> at limit
		SHOUTED      -> said
		its hour     -> its expiry time
	`)
	const src = "package p\n\n" +
		"// It mends what is wrong at its\n// hour, in a crowd.\n" +
		"type aLetter struct{ Letters, letter int } // a letter\n" +
		"func mendAll() { crowd := amend(`Mend`, `shouted`, `SHOUTED`) }\n"
	for name, want := range map[string][]use{
		"a.go": {
			{6, "mendAll", "fix"},
			{3, "mends", "fix"},
			{6, "Mend", "fix"},
			{5, "aLetter", "message"},
			{5, "letter", "message"},
			{4, "crowd", "at limit"},
			{6, "SHOUTED", "said"},
			{3, "its // hour", "its expiry time"},
		},
		"a.yaml": {
			{3, "mends", "fix"},
			{6, "Mend", "fix"},
			{6, "SHOUTED", "said"},
			{3, "its // hour", "its expiry time"},
		},
	} {
		if got := uses(list, name, src); !slices.Equal(got, want) {
			t.Errorf("%s: found\n%v, want\n%v", name, got, want)
		}
	}
}
