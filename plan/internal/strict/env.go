package strict

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
)

// Env is what ${VAR} may reach. A plan can come from a stranger: it must not
// be able to read ${AWS_SECRET_ACCESS_KEY} into a prompt or a header.
type Env struct {
	Lookup func(string) (string, bool)
	Allow  []string // beyond the fixed list

	// Given is every variable whose value has become a part of a secret text,
	// and Plain every one whose value has become a part of any other.
	Given, Plain map[string]string

	// Uses is every place where a variable's value has become a part of a text.
	Uses []Use
}

// A Use is one reference to a variable, at its place in the plan.
type Use struct {
	Name   string // of the variable
	Where  string // the key in words: backend.headers.X-Tenant, matrix.model[0]
	Secret bool   // the text is of a kind that is never shown
	Ref    string // the text as it is written
	Value  string // the text with its variables; "" for a secret one

	Src  *syntax.Source
	Span syntax.Span
}

// use adds a use. A plug-in's part of a plan is decoded several times.
func (e *Env) use(u Use) {
	if !slices.ContainsFunc(e.Uses, func(o Use) bool {
		return o.Name == u.Name && o.Where == u.Where && o.Src == u.Src && o.Span == u.Span
	}) {
		e.Uses = append(e.Uses, u)
	}
}

// The variables that a plan may always name, and the prefix of the others.
var always = []string{"HF_TOKEN", "RUNPOD_API_KEY"}

const prefix = "SWEEP_"

var (
	reference = regexp.MustCompile(`\$?\$\{([^}]*)\}?`)
	// placeholder is a reference that a provider fills in, to a secret that is
	// stored there: {{ RUNPOD_SECRET_hf }}.
	placeholder = regexp.MustCompile(`^\{\{ *[A-Z][A-Za-z0-9_]* *\}\}$`)
	identifier  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

	credentialName = regexp.MustCompile(`(?i)(^|[^a-z0-9])(api[-_]?key|(?:proxy-)?authorization|auth|bearer|cookie|credentials?|passwd|x-api-key)$|(?i)(key|token|secret|password)$`)
)

func (e *Env) allowed(name string) bool {
	return slices.Contains(always, name) || strings.HasPrefix(name, prefix) || slices.Contains(e.Allow, name)
}

// expand replaces ${VAR} in a text; $${ stands for ${ itself. secrets says
// whether the text is of a kind that is never shown.
func (e *Env) expand(r *syntax.Report, n *syntax.Node, where string, secrets bool) (string, bool) {
	if !strings.Contains(n.Text, "${") {
		return n.Text, true
	}
	ok := true
	var uses []Use
	var b strings.Builder
	last := 0
	for _, m := range reference.FindAllStringSubmatchIndex(n.Text, -1) {
		whole, name := n.Text[m[0]:m[1]], n.Text[m[2]:m[3]]
		b.WriteString(n.Text[last:m[0]])
		last = m[1]
		if strings.HasPrefix(whole, "$$") {
			b.WriteString(whole[1:])
			continue
		}
		from := len([]rune(n.Text[:m[0]]))
		span := n.Offset(from, from+len([]rune(whole)))
		switch value, set := e.lookup(name); {
		case !strings.HasSuffix(whole, "}") || !identifier.MatchString(name):
			d := r.At(n.Src, span, "variable", "%s is not a variable", whole)
			d.Expected = "${NAME}"
			d.Hint = "write $${ for a literal ${"
			ok = false
		case !e.allowed(name):
			d := r.At(n.Src, span, "variable", "a plan may not read ${%s}", name)
			d.Expected = "one of ${SWEEP_...}, ${HF_TOKEN} or ${RUNPOD_API_KEY}"
			d.Hint = "allow it with --allow-env " + name + ", or write $${" + name + "} for the text itself"
			ok = false
		case secret.Named(name) && !secrets:
			d := r.At(n.Src, span, "secret", "${%s} is a credential and %s is written to files", name, place(where))
			d.Expected = "a credential in env, headers or a backend's key only"
			ok = false
		case !set:
			d := r.At(n.Src, span, "variable", "${%s} is not set", name)
			d.Hint = "set it in the environment of sweep"
			ok = false
		case strings.TrimSpace(value) == "":
			r.At(n.Src, span, "variable", "${%s} is set to nothing", name)
			ok = false
		default:
			into := &e.Plain
			if secrets {
				into = &e.Given
			}
			if *into == nil {
				*into = map[string]string{}
			}
			(*into)[name] = value
			uses = append(uses, Use{Name: name, Where: where, Secret: secrets, Ref: n.Text, Src: n.Src, Span: span})
			b.WriteString(value)
		}
	}
	b.WriteString(n.Text[last:])
	for _, u := range uses {
		if !secrets {
			u.Value = b.String()
		}
		e.use(u)
	}
	return b.String(), ok
}

func (e *Env) lookup(name string) (string, bool) {
	if e.Lookup == nil {
		return "", false
	}
	return e.Lookup(name)
}

// secret decodes a text that may hold credentials by reference. Numbers and
// booleans are taken as they are written: environment variables often are.
func (d *Decoder) secret(n *syntax.Node, v reflect.Value, where string) {
	switch n.Kind {
	case syntax.String, syntax.Int, syntax.Float, syntax.Bool:
	default:
		d.Report.Node(n, "type", "%s takes text, found %s", place(where), n.Kind.Name())
		return
	}
	d.literal(n, where)
	if at := strings.LastIndexByte(where, '.'); at >= 0 {
		d.credential(where[at+1:], n, where)
	}
	value, ok := n.Text, true
	if d.Env != nil {
		value, ok = d.Env.expand(d.Report, n, where, true)
	}
	if ok {
		v.Set(reflect.ValueOf(secret.New(n.Text, value)))
	}
}

// credential rejects a credential that stands in the plan itself. The plan is
// copied into every run directory, and people share those.
func (d *Decoder) credential(name string, n *syntax.Node, where string) {
	if !credentialName.MatchString(name) || n.Kind == syntax.Map || n.Kind == syntax.List || n.Kind == syntax.Null {
		return
	}
	if strings.Contains(n.Text, "${") || placeholder.MatchString(n.Text) {
		return
	}
	d.exposed(n, where)
}

// literal rejects a text that looks like a credential, wherever it stands.
func (d *Decoder) literal(n *syntax.Node, where string) {
	if syntax.Credential.MatchString(n.Text) {
		d.exposed(n, where)
	}
}

func (d *Decoder) exposed(n *syntax.Node, where string) {
	for i := range n.Text {
		if i == 0 || n.Text[i-1] == '\n' {
			from := len([]rune(n.Text[:i]))
			span := n.Offset(from, len([]rune(n.Text)))
			span.EndCol = len([]rune(n.Src.Line(span.Line))) + 1
			n.Src.Mask(span)
		}
	}
	diag := d.Report.Node(n, "secret", "%s holds a credential in clear text", place(where))
	diag.Expected = "a reference, like ${SWEEP_API_KEY}"
	diag.Hint = "put it into an environment variable; the plan is copied into every run directory"
}

// LooksSecret reports whether a setting of this name is a credential.
func LooksSecret(name string) bool { return credentialName.MatchString(name) }
