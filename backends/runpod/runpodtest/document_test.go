package runpodtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sweep.dev/sweep/internal/recordtest"
)

const openAPIName = "runpod-rest-v2-openapi.mcp.yaml"

// A document is RunPod's OpenAPI document.
type document struct {
	root   map[string]any
	schema func(pointer string) *jsonschema.Schema
}

var openAPI struct {
	once sync.Once
	*document
	err error
}

// load returns nil if the folder with the document is absent.
func load(t *testing.T) *document {
	t.Helper()
	raw, ok := recordtest.Lookup(t, openAPIName)
	if !ok {
		return nil
	}
	openAPI.once.Do(func() { openAPI.document, openAPI.err = parseOpenAPI(raw) })
	if openAPI.err != nil {
		t.Fatal(openAPI.err)
	}
	return openAPI.document
}

// need skips the test if the folder with the document is absent.
func need(t *testing.T) *document {
	t.Helper()
	recordtest.Read(t, openAPIName)
	return load(t)
}

func parseOpenAPI(raw []byte) (*document, error) {
	asJSON, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("api.json", doc); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	d := &document{root: doc.(map[string]any)}
	d.schema = func(pointer string) *jsonschema.Schema {
		mu.Lock()
		defer mu.Unlock()
		return compiler.MustCompile("api.json#" + pointer)
	}
	return d, nil
}

// get follows a path of keys; "$ref" is followed too.
func (d *document) get(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := d.resolve(v).(map[string]any)
		v = m[k]
	}
	return d.resolve(v)
}

func (d *document) resolve(v any) any {
	for {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		ref, ok := m["$ref"].(string)
		if !ok {
			return v
		}
		v = d.root
		for k := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			v = v.(map[string]any)[k]
		}
	}
}

// checkAnswer wants an answer to be as the document has it for its path,
// method and status.
func checkAnswer(t *testing.T, method, path string, got reply) {
	t.Helper()
	d := load(t)
	if d == nil {
		return
	}
	at := template(path)
	if at == "" || got.status == http.StatusPaymentRequired {
		return
	}
	responses := d.get(d.root, "paths", at, strings.ToLower(method), "responses").(map[string]any)
	code := fmt.Sprint(got.status)
	if _, ok := responses[code]; !ok {
		code = "default"
	}
	content, _ := d.get(responses, code, "content").(map[string]any)
	if content == nil {
		if len(got.raw) > 0 {
			t.Errorf("%s %s: a body, and the document has none: %v", method, at, got)
		}
		return
	}
	kind := got.header.Get("Content-Type")
	if content[kind] == nil {
		t.Errorf("%s %s: content type %q, want one of %v", method, at, kind, slices.Collect(maps.Keys(content)))
		return
	}
	// The pointer of a response that is a reference.
	pointer := "/paths/" + escape(at) + "/" + strings.ToLower(method) + "/responses/" + code
	if ref, ok := responses[code].(map[string]any)["$ref"].(string); ok {
		pointer = strings.TrimPrefix(ref, "#")
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(got.raw)))
	if err != nil {
		t.Errorf("%s %s: %v", method, at, err)
		return
	}
	if err := d.schema(pointer + "/content/" + escape(kind) + "/schema").Validate(v); err != nil {
		t.Errorf("%s %s answers what the document does not have: %v\n%s", method, at, err, got.raw)
	}
}

func escape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// template returns the path of the document that a request's is of.
func template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	want := strings.Split(path, "/")
	for _, p := range paths {
		have := strings.Split(p.path, "/")
		if len(have) == len(want) && !slices.ContainsFunc(have, func(s string) bool {
			i := slices.Index(have, s)
			return s != "{id}" && s != want[i]
		}) {
			return p.path
		}
	}
	return ""
}

// TestDocument_paths: every path and method that is emulated is in the document.
func TestDocument_paths(t *testing.T) {
	d := need(t)
	for _, p := range paths {
		for _, m := range p.methods {
			if d.get(d.root, "paths", p.path, strings.ToLower(m.name)) == nil {
				t.Errorf("the document has no %s %s", m.name, p.path)
			}
		}
		// And every method of the path is emulated.
		for name := range d.get(d.root, "paths", p.path).(map[string]any) {
			if name == "parameters" {
				continue
			}
			if !slices.ContainsFunc(p.methods, func(m method) bool { return strings.EqualFold(m.name, name) }) {
				t.Errorf("%s %s of the document is not emulated", strings.ToUpper(name), p.path)
			}
		}
	}
}

// merged returns a schema of the document with its allOf made one.
func (d *document) merged(v any) map[string]any {
	m, _ := d.resolve(v).(map[string]any)
	out := map[string]any{"properties": map[string]any{}}
	var required []any
	parts, _ := m["allOf"].([]any)
	for _, part := range parts {
		p := d.merged(part)
		maps.Copy(out["properties"].(map[string]any), p["properties"].(map[string]any))
		list, _ := p["required"].([]any)
		required = append(required, list...)
		for k, v := range p {
			if k != "properties" && k != "required" {
				out[k] = v
			}
		}
	}
	for k, v := range m {
		switch k {
		case "allOf", "required":
		case "properties":
			maps.Copy(out["properties"].(map[string]any), v.(map[string]any))
		default:
			out[k] = v
		}
	}
	list, _ := m["required"].([]any)
	out["required"] = append(required, list...)
	return out
}

// compare lists the differences between a rule and a schema.
func (d *document) compare(at string, r *rule, schema any) (diffs []string) {
	s := d.merged(schema)
	differ := func(format string, args ...any) { diffs = append(diffs, at+": "+fmt.Sprintf(format, args...)) }
	types, _ := s["type"].([]any)
	if one, ok := s["type"].(string); ok {
		types = []any{one}
	}
	if !slices.Contains(types, any(r.kind)) || r.null != slices.Contains(types, any("null")) {
		differ("type %v, the document has %v", r.kind, types)
	}
	number := func(key string, have int) {
		want := 0
		if n, ok := s[key].(json.Number); ok {
			w, _ := n.Int64()
			want = int(w)
		}
		if want != have {
			differ("%s %d, the document has %d", key, have, want)
		}
	}
	number("minimum", r.min)
	number("minLength", r.minLen)
	number("maxItems", r.maxItems)
	var enum []string
	list, _ := s["enum"].([]any)
	for _, v := range list {
		enum = append(enum, v.(string))
	}
	if !slices.Equal(enum, r.enum) {
		differ("enum %v, the document has %v", r.enum, enum)
	}
	if r.kind == "array" {
		diffs = append(diffs, d.compare(at+"[]", r.items, s["items"])...)
	}
	if r.kind != "object" || r.keys == nil {
		if r.kind == "object" && d.get(s, "additionalProperties", "type") != "string" {
			differ("any key with a string, the document has %v", s["additionalProperties"])
		}
		return diffs
	}
	if s["additionalProperties"] != false && s["unevaluatedProperties"] != false {
		differ("unknown keys are refused, not so in the document")
	}
	required := []string{}
	for _, v := range s["required"].([]any) {
		required = append(required, v.(string))
	}
	if diff := cmp.Diff(sorted(required), sorted(r.required)); diff != "" {
		differ("required (-document +table): %s", diff)
	}
	properties := s["properties"].(map[string]any)
	for k, sub := range r.keys {
		switch {
		case properties[k] != nil:
			diffs = append(diffs, d.compare(at+"."+k, sub, properties[k])...)
		case !slices.Contains(r.newer, k):
			differ("key %s, which the document does not have", k)
		}
	}
	for k := range properties {
		if r.keys[k] == nil {
			differ("no key %s, which the document has", k)
		}
	}
	return diffs
}

func sorted(s []string) []string {
	s = append([]string{}, s...)
	slices.Sort(s)
	return s
}

// TestDocument_requests: the table of keys, types, enumerations and limits is
// that of the document.
func TestDocument_requests(t *testing.T) {
	d := need(t)
	for name, r := range map[string]*rule{
		"CreatePodRequest": createRule, "UpdatePodRequest": updateRule, "PodActionRequest": actionRule,
	} {
		for _, diff := range d.compare(name, r, d.get(d.root, "components", "schemas", name)) {
			t.Error(diff)
		}
	}
	// That the comparison finds something.
	broken := *createRule
	broken.keys = maps.Clone(createRule.keys)
	delete(broken.keys, "disk")
	broken.keys["bogus"] = text
	broken.keys["cloud"] = &rule{kind: "string", enum: []string{"SECURE"}}
	if diffs := d.compare("broken", &broken, d.get(d.root, "components", "schemas", "CreatePodRequest")); len(diffs) != 3 {
		t.Errorf("three differences were made, %d found: %v", len(diffs), diffs)
	}
}

// TestDocument_query: the parameters that are read are in the document, with
// their enumerations.
func TestDocument_query(t *testing.T) {
	d := need(t)
	want := map[string][]string{
		"/v2/pods/{id}/logs": {"source", "tail", "since", "Last-Event-ID"},
		"/v2/catalog/gpus":   {"include", "product", "count", "cloud", "minCudaVersion"},
		"/v2/billing":        {"startTime", "endTime", "bucketSize", "lastN"},
		"/v2/billing/pods":   {"startTime", "endTime", "bucketSize", "lastN", "podId"},
	}
	for path, names := range want {
		var have []string
		for _, p := range d.get(d.root, "paths", path, "get", "parameters").([]any) {
			have = append(have, d.get(p, "name").(string))
		}
		if diff := cmp.Diff(sorted(have), sorted(names)); diff != "" {
			t.Errorf("%s (-document +emulator): %s", path, diff)
		}
	}
	var sizes []string
	for _, v := range d.get(d.root, "components", "schemas", "BillingBucketSize", "enum").([]any) {
		sizes = append(sizes, v.(string))
	}
	if !slices.Equal(sizes, bucketSizes) {
		t.Errorf("bucket sizes %v, the document has %v", bucketSizes, sizes)
	}
}

// recorded returns the payloads that somebody recorded of the live service.
func recorded(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	raw := recordtest.Read(t, "runpod-recorded-payloads.json")
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// keys lists the paths of all keys of a document, arrays by their first item.
func keys(at string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		var all []string
		for k, sub := range v {
			all = append(all, at+"."+k)
			if k != "env" {
				all = append(all, keys(at+"."+k, sub)...)
			}
		}
		slices.Sort(all)
		return all
	case []any:
		if len(v) > 0 {
			return keys(at+"[]", v[0])
		}
	}
	return nil
}

// TestRecorded replays every payload of the API v2 that was recorded.
func TestRecorded(t *testing.T) {
	all := recorded(t)
	e := start(t, Options{PerMinute: 60})
	replayed := map[string]bool{}
	fixture := func(name string) json.RawMessage {
		replayed[name] = true
		if all[name] == nil {
			t.Fatalf("%s is not among what was recorded", name)
		}
		return all[name]
	}
	object := func(raw json.RawMessage) (v map[string]any) {
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}

	// The create that was accepted is, and shows the keys that the example has.
	made := ask(t, e, http.StatusCreated, "POST", "/v2/pods", string(fixture("v2_create_request_recorded")))
	example := object(fixture("v2_create_201_spec"))
	example["cudaVersion"], example["template"] = nil, nil
	delete(example, "mounts") // of another kind
	delete(made.body, "mounts")
	if diff := cmp.Diff(keys("", example), keys("", made.body)); diff != "" {
		t.Errorf("a create's answer (-example +got): %s", diff)
	}
	id := made.body["id"].(string)
	want := object(fixture("v2_pod_running_recorded"))
	got := running(t, e, id)
	if diff := cmp.Diff(keys("", want), keys("", got)); diff != "" {
		t.Errorf("a running pod (-recorded +got): %s", diff)
	}
	for _, k := range []string{"status", "actions", "cost", "ports", "gpu", "cloud", "mounts", "name", "image", "env", "dataCenterId", "cudaVersion", "locked", "template", "registry", "args", "disk"} {
		if diff := cmp.Diff(want[k], got[k]); diff != "" {
			t.Errorf("%s of a running pod (-recorded +got): %s", k, diff)
		}
	}

	// Errors are those that were recorded, byte for byte where the service said
	// them, in the order of their keys too.
	problem := func(name string, got reply) {
		t.Helper()
		raw := fixture(name)
		var f struct {
			Status  int               `json:"_http_status"`
			Kind    string            `json:"_content_type"`
			Headers map[string]string `json:"_headers"`
			Body    json.RawMessage   `json:"body"`
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(object(f.Body))
		if err != nil {
			t.Fatal(err)
		}
		if got.status != f.Status || string(got.raw) != string(body) {
			t.Errorf("%s: got %v, want %d %s", name, got, f.Status, body)
		}
		if kind := got.header.Get("Content-Type"); kind != "application/problem+json" || f.Kind != "" && kind != f.Kind {
			t.Errorf("%s: content type %q", name, kind)
		}
		for h, v := range f.Headers {
			if h == "RateLimit" {
				continue // the hour and the day are examples; the minute is looked at below
			}
			if got.header.Get(h) != v {
				t.Errorf("%s: %s: %q, want %q", name, h, got.header.Get(h), v)
			}
		}
	}
	e.SetFaults("no-capacity=1")
	problem("v2_error_no_capacity_recorded", ask(t, e, 400, "POST", "/v2/pods", request("x", forever)))
	problem("v2_error_422_recorded", ask(t, e, 422, "POST", "/v2/pods/"+id+"/action", `{"action":"reset"}`))
	problem("v2_error_401_spec", askAs(t, e, "", 401, "GET", "/v2/pods", nil))
	e.SetFaults("delete-403")
	problem("v2_error_403_spec", ask(t, e, 403, "DELETE", "/v2/pods/"+id, nil))
	problem("v2_error_404_spec", ask(t, e, 404, "GET", "/v2/pods/none", nil))
	problem("v2_error_405_spec", askAs(t, e, e.Key(), 405, "PUT", "/v2/pods", nil))
	e.SetFaults("429=1")
	e.opts.RetryAfter = 12e9
	limited := ask(t, e, 429, "GET", "/v2/pods", nil)
	problem("v2_error_429_spec", limited)
	if h := limited.header.Get("RateLimit"); !strings.HasPrefix(h, `"minute";r=0;t=12, "hour"`) {
		t.Errorf("RateLimit: %s", h)
	}

	var event string
	if err := json.Unmarshal(fixture("v2_logs_event_spec"), &event); err != nil {
		t.Fatal(err)
	}
	line := entry{At: at("2026-06-01T12:02:03Z"), Source: "container", Line: "Model loaded.", seq: 1}
	if line.String() != event {
		t.Errorf("event %q, want %q", line, event)
	}

	rows := object(fixture("v2_catalog_gpu_spec"))["gpus"].([]any)[0].(map[string]any)
	row := ask(t, e, 200, "GET", "/v2/catalog/gpus/NVIDIA%20GeForce%20RTX%204090?include=AVAILABILITY&product=POD", nil).body
	delete(rows["price"].(map[string]any), "serverless") // not a pod's
	delete(row, "cudaVersions")                          // newer than the example
	if diff := cmp.Diff(keys("", rows), keys("", row)); diff != "" {
		t.Errorf("a row of the catalogue (-example +got): %s", diff)
	}

	for name := range all {
		if strings.HasPrefix(name, "v2_") && !replayed[name] {
			t.Errorf("%s was recorded and is not replayed", name)
		}
	}
}
