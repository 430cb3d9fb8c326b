package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/internal/secret"
)

const (
	ref    = "Bearer ${TOKEN}"
	canary = "Bearer s3cr3t-c4n4ry"
)

// A holder has a secret wherever a configuration can have one.
type holder struct {
	Value   secret.String
	Pointer *secret.String
	Slice   []secret.String
	Map     map[string]secret.String
	Any     any
	Nested  struct{ Inner secret.String }
	hidden  secret.String
}

func newHolder() holder {
	s := secret.New(ref, canary)
	return holder{
		Value: s, Pointer: &s, Slice: []secret.String{s}, Map: map[string]secret.String{"Authorization": s},
		Any: s, Nested: struct{ Inner secret.String }{s}, hidden: s,
	}
}

// clean fails if a text shows the value, as it is or in an encoding.
func clean(t *testing.T, what, text string) {
	t.Helper()
	for _, shape := range []string{
		"s3cr3t", "c4n4ry", fmt.Sprintf("%x", "s3cr3t"), fmt.Sprintf("%X", "s3cr3t"),
		fmt.Sprintf("% x", "s3cr3t"), strings.Trim(fmt.Sprintf("%d", []byte("s3cr3t")), "[]"), "czNjcjN0", "MzY3Iz",
	} {
		if strings.Contains(text, shape) {
			t.Errorf("%s shows the secret: %s", what, text)
		}
	}
}

func TestFormat(t *testing.T) {
	s := secret.New(ref, canary)
	h := newHolder()
	for _, verb := range []string{
		"%v", "%+v", "%#v", "%s", "%+s", "%#s", "%q", "%+q", "%#q", "%x", "%X", "% x", "%#x", "%d", "%t", "%p", "%b", "%o", "%c", "%U", "%e", "%z", "%!", "%T", "%10v", "%.3s", "%-30q|",
	} {
		for name, value := range map[string]any{"value": s, "pointer": &s, "holder": h, "pointer to holder": &h, "slice": []any{s, h}} {
			clean(t, verb+" of a "+name, fmt.Sprintf(verb, value))
		}
	}
	for _, c := range []struct{ verb, want string }{
		{"%v", ref},
		{"%s", ref},
		{"%+v", ref},
		{"%x", ref},
		{"%q", `"` + ref + `"`},
		{"%#v", `secret.String("` + ref + `")`},
	} {
		if got := fmt.Sprintf(c.verb, s); got != c.want {
			t.Errorf("%s: got %s, want %s", c.verb, got, c.want)
		}
	}
	clean(t, "Sprint", fmt.Sprint(s, h))
	clean(t, "Sprintln", fmt.Sprintln(s, &h))
	// A value held in an unexported field is printed by reflection, without
	// our methods: what it shows is an address.
	clean(t, "a hidden field", fmt.Sprintf("%+v %#v", struct{ s secret.String }{s}, struct{ s secret.String }{s}))
}

func TestEncoders(t *testing.T) {
	h := newHolder()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, "JSON", string(text))
	if n := strings.Count(string(text), ref); n != 6 {
		t.Errorf("JSON has the reference %d times: %s", n, text)
	}
	if text, err = json.Marshal(map[string]any{"a": &h, "b": []any{h.Value}}); err != nil {
		t.Fatal(err)
	}
	clean(t, "JSON of a map", string(text))
	if text, err = yaml.Marshal(h); err != nil {
		t.Fatal(err)
	}
	clean(t, "YAML", string(text))
	if !strings.Contains(string(text), ref) {
		t.Errorf("YAML lacks the reference: %s", text)
	}
	if text, err = xml.Marshal(h.Value); err != nil {
		t.Fatal(err)
	}
	clean(t, "XML", string(text))
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(h.Value); err == nil {
		t.Error("gob knows how to encode a secret")
	}
	clean(t, "gob", buf.String())
	buf.Reset()
	if err := template.Must(template.New("").Parse(`{{.Value}} {{printf "%#v" .}} {{.Map}}`)).Execute(&buf, h); err != nil {
		t.Fatal(err)
	}
	clean(t, "a template", buf.String())
}

func TestLogs(t *testing.T) {
	var buf bytes.Buffer
	h := newHolder()
	for _, handler := range []slog.Handler{
		slog.NewTextHandler(&buf, nil),
		slog.NewJSONHandler(&buf, &slog.HandlerOptions{AddSource: true}),
	} {
		l := slog.New(handler).With("with", h.Value)
		l.Info("message", "value", h.Value, "pointer", h.Pointer, "holder", h, "map", h.Map, slog.Group("group", "value", h.Value))
		l.Error("error", "err", fmt.Errorf("send %v: %w", h, errors.New("refused")))
	}
	log.New(&buf, "", 0).Printf("%v %+v %#v", h, h, h.Value)
	clean(t, "a log", buf.String())
	if !strings.Contains(buf.String(), ref) {
		t.Errorf("the log lacks the reference: %s", buf.String())
	}
}

func TestErrors(t *testing.T) {
	h := newHolder()
	err := errors.Join(fmt.Errorf("header %s", h.Value), fmt.Errorf("config %+v: %w", h, os.ErrInvalid))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		clean(t, "an error as "+verb, fmt.Sprintf(verb, err))
	}
}

const panicVar = "SECRET_TEST_PANIC"

// TestMain makes this binary panic with a secret where it is told to.
func TestMain(m *testing.M) {
	h := newHolder()
	switch os.Getenv(panicVar) {
	case "value":
		panic(h.Value)
	case "pointer":
		panic(h.Pointer)
	case "holder":
		panic(h)
	case "error":
		panic(fmt.Errorf("with %+v", h))
	case "text":
		panic(fmt.Sprintf("%#v", h))
	}
	os.Exit(m.Run())
}

func TestPanic(t *testing.T) {
	for _, mode := range []string{"value", "pointer", "holder", "error", "text"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), panicVar+"="+mode, "GOTRACEBACK=all")
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("panic: ")) {
			t.Errorf("%s: no panic: %v", mode, err)
		}
		clean(t, "a panic with a "+mode, string(out))
	}
}

func TestString(t *testing.T) {
	s := secret.New(ref, canary)
	if s.Reveal() != canary || s.Ref() != ref || s.String() != ref || s.IsZero() {
		t.Errorf("got %v", s)
	}
	p := secret.Plain("x")
	if p.Reveal() != "x" || p.Ref() != "x" || p.IsZero() {
		t.Errorf("got %v", p)
	}
	var zero secret.String
	if zero.Reveal() != "" || !zero.IsZero() || fmt.Sprint(zero) != "" {
		t.Errorf("got %v", zero)
	}
	// A reference to nothing is empty, and still shown as it was written.
	if e := secret.New(ref, ""); !e.IsZero() || e.Ref() != ref {
		t.Errorf("got %v", e)
	}
}

func TestUnmarshalYAML(t *testing.T) {
	var c struct {
		Key secret.String `yaml:"key"`
	}
	if err := yaml.Unmarshal([]byte("key: a ${B}"), &c); err != nil || c.Key.Ref() != "a ${B}" || c.Key.Reveal() != "a ${B}" {
		t.Errorf("got %v, %v", c.Key, err)
	}
	if err := yaml.Unmarshal([]byte("key: [a]"), &c); err == nil {
		t.Error("a list became a text")
	}
}

// Two Strings of one value are not the same Go value, so comparing by == says
// nothing; comparing by reflection does.
func TestEqual(t *testing.T) {
	if !reflect.DeepEqual(secret.New(ref, canary), secret.New(ref, canary)) || reflect.DeepEqual(secret.New(ref, canary), secret.New(ref, "x")) {
		t.Error("reflect.DeepEqual does not compare values")
	}
}
