package rules

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/plan"
)

// Every key of the tables is one of the plan, and a plan of the corpus shows what
// each row says.
func TestRuleKeys(t *testing.T) {
	known := map[string]bool{}
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, at string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for _, f := range fieldtag.Of(typ) {
			known[at+f.Key] = true
			walk(f.Type, at+f.Key+".")
		}
	}
	walk(reflect.TypeFor[plan.Plan](), "")
	var told strings.Builder
	files, err := filepath.Glob("../../planfile/testdata/err/*.out")
	if err != nil || len(files) < 80 {
		t.Fatalf("the corpus has %d wrong plans (%v), want at least 80", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	value := regexp.MustCompile(`\\{[a-z_.\\]+\\}`) // {load.prompts.kind}, quoted
	check := func(says string, keys ...string) {
		t.Helper()
		for _, k := range keys {
			if !known[k] {
				t.Errorf("%s is no key of a plan", k)
			}
		}
		if !regexp.MustCompile(value.ReplaceAllString(regexp.QuoteMeta(says), "[^;\\n]+")).MatchString(told.String()) {
			t.Errorf("no plan of the corpus shows: %s", says)
		}
	}
	for _, r := range needed {
		check(r.section+" has no "+r.key, r.section, r.section+"."+r.key)
	}
	for _, r := range either {
		check(r.text, r.first, r.second)
	}
	for _, r := range noEffect {
		for key := range strings.FieldsSeq(r.keys) {
			own := strings.Replace(key, "matrix.", "load.prompts.", 1)
			if !known[own] {
				own = strings.Replace(key, "matrix.", "load.", 1)
			}
			check(key+" has no effect: "+r.why, own)
		}
	}
}
