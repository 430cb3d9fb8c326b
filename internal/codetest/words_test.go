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
	first   []string       // a word of each phrase, in lower case: most texts have none
	text    *regexp.Regexp // any of the phrases
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
		r.text = regexp.MustCompile(`\b(?:` + strings.Join(forms, "|") + `)\b`)
		list = append(list, r)
	}
	return list
}

// uses returns where a text breaks a rule, as line and the words found.
func uses(list []rule, name, text string) (found []use) {
	lower := strings.ToLower(text)
	isGo := strings.HasSuffix(name, ".go")
	for _, r := range list {
		has := func(s string) bool { return strings.Contains(lower, s) }
		if !slices.ContainsFunc(r.first, has) {
			continue
		}
		if isGo {
			found = append(found, declared(r, name, text)...)
		}
		if r.name || r.doc && !isGo && !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, at := range r.text.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			if r.doc && isGo && !inComment(text[:at[0]]) {
				continue
			}
			found = append(found, use{line, strings.Join(strings.Fields(text[at[0]:at[1]]), " "), r.instead})
		}
	}
	return found
}

type use struct {
	line          int
	said, instead string
}

// inComment says whether the last line of a text has a comment begun.
func inComment(before string) bool {
	return strings.Contains(before[strings.LastIndexByte(before, '\n')+1:], "//")
}

// declared returns the names that a Go file declares with a word of the rule in them.
func declared(r rule, name, text string) (found []use) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says it better
	}
	check := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id == nil {
				continue
			}
			words := split(id.Name)
			if said := r.text.FindString(words); said != "" && (r.name || words != strings.ToLower(id.Name)) {
				found = append(found, use{set.Position(id.Pos()).Line, id.Name, r.instead})
			}
		}
	}
	check(file.Name)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Name)
		case *ast.TypeSpec:
			check(n.Name)
		case *ast.ValueSpec:
			check(n.Names...)
		case *ast.Field:
			check(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					id, _ := e.(*ast.Ident)
					check(id)
				}
			}
		}
		return true
	})
	return found
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
