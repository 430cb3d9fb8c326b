package axes

import (
	"slices"
	"testing"

	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
)

// Every axis of the table says what it is, puts its value where it is read again,
// and has a column of its own.
func TestTable(t *testing.T) {
	names := map[string]string{
		"args.<argument>": "args.max-num-seqs", "env.<VARIABLE>": "env.X_Y",
		"roles.<role>.replicas": "roles.decode.replicas", "roles.<role>.args.<argument>": "roles.decode.args.max-num-seqs",
		"manifest.<path>": "manifest.Deployment/decode.spec.template.spec.containers[0].args[1]",
	}
	columns := make(map[string]string)
	for _, entry := range table() {
		name := entry.name
		if entry.pattern != nil {
			name = names[entry.name]
		}
		kind, ok := Lookup(name)
		if !ok || kind.doc == "" {
			t.Fatalf("the axis %s (%q) is not found, or says nothing of itself", entry.name, name)
		}
		a := kind.Axis(name)
		if other := columns[a.Column]; other != "" {
			t.Errorf("%s and %s have the column %s", name, other, a.Column)
		}
		columns[a.Column] = name
		value := map[Values]plan.Value{Text: "x", Count: int64(3), Number: 0.5, Any: "y", Spelt: "z"}[kind.Values()]
		empty := Draft{Args: map[string]any{}, Env: map[string]secret.String{}, Roles: map[string]plan.Role{}, Manifest: map[string]any{}}
		full := Draft{Args: map[string]any{}, Env: map[string]secret.String{}, Roles: map[string]plan.Role{}, Manifest: map[string]any{}}
		kind.Put(&full, value)
		same := full.Load.Concurrency == empty.Load.Concurrency && full.GPUs == empty.GPUs &&
			len(full.Args)+len(full.Env)+len(full.Roles)+len(full.Manifest) == 0 && kind.of(full.Load) == nil &&
			full.Server.Engine+full.Server.Model+full.Server.GPU == ""
		if same {
			t.Errorf("%s: its value is nowhere in a cell", name)
		}
		if path := kind.Path(); !a.Server && (path == nil || kind.of(full.Load) != value) {
			t.Errorf("%s: a load that has %v gives %v, and its key is %v", name, value, kind.of(full.Load), path)
		}
		if f := kind.Field(); kind.Values() == Count && (f.Min == nil || f.Max == nil) {
			t.Errorf("%s counts without bounds: %+v", name, f)
		}
	}
	for _, name := range []string{"", "args.", "args.-x", "env.1", "roles.X.replicas", "roles.decode", "manifest.", "manifest.[0]", "manifest.a b", "nosuch"} {
		if _, ok := Lookup(name); ok {
			t.Errorf("%q is an axis", name)
		}
	}
	if !slices.Contains(Amounts(), "concurrency") || slices.Contains(Names(), "args.<argument>") {
		t.Errorf("amounts %v, names %v", Amounts(), Names())
	}
}
