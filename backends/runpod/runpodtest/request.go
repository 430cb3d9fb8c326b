package runpodtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule is what a value in a body must be. A test compares the tables below
// with the schemas of the OpenAPI document.
type rule struct {
	kind     string // string, integer, boolean, array, object; "" any of them
	null     bool   // may be null too
	min      int    // of an integer; 0 is none
	minLen   int
	maxItems int
	enum     []string
	items    *rule            // of an array
	keys     map[string]*rule // of an object; nil is any key with a string
	required []string
	// newer are keys that the saved document does not have yet and the live
	// service takes.
	newer []string
}

var (
	text    = &rule{kind: "string"}
	boolean = &rule{kind: "boolean"}
	texts   = &rule{kind: "array", items: text}
	clouds  = []string{"SECURE", "COMMUNITY"}
	actions = []string{"start", "stop", "restart", "terminate"}

	mountsRule = &rule{kind: "object", keys: map[string]*rule{
		"persistent": {kind: "object", required: []string{"size", "path"}, keys: map[string]*rule{
			"size": {kind: "integer", min: 10}, "path": text,
		}},
		"network": {kind: "array", maxItems: 1, items: &rule{
			kind: "object", required: []string{"volumeId", "path"},
			keys: map[string]*rule{"volumeId": text, "path": text},
		}},
	}}

	// containerRules are what creating and changing a pod have in common.
	containerRules = map[string]*rule{
		"image":    text,
		"args":     text,
		"disk":     {kind: "integer", min: 1},
		"ports":    texts,
		"env":      {kind: "object"},
		"registry": {kind: "string", null: true},
		"mounts":   mountsRule,
	}

	createRule = &rule{
		kind: "object", required: []string{"name", "image"},
		newer: []string{"startSsh", "startJupyter"},
		keys: with(containerRules, map[string]*rule{
			"name": {kind: "string", minLen: 1},
			"gpu": {
				kind: "object", required: []string{"id"},
				newer: []string{"allowedCudaVersions", "minCudaVersion"},
				keys: map[string]*rule{
					"id": text, "count": {kind: "integer", min: 1},
					"allowedCudaVersions": texts, "minCudaVersion": text,
				},
			},
			"cpu": {kind: "object", required: []string{"id", "vcpuCount"}, keys: map[string]*rule{
				"id": {kind: "string", minLen: 1}, "vcpuCount": {kind: "integer", min: 2},
			}},
			"cloud":            {kind: "string", enum: clouds},
			"dataCenterIds":    texts,
			"globalNetworking": boolean,
			"startSsh":         boolean,
			"startJupyter":     boolean,
		}),
	}

	updateRule = &rule{kind: "object", keys: with(containerRules, map[string]*rule{
		"name": {kind: "string", minLen: 1}, "locked": boolean, "globalNetworking": boolean,
	})}

	actionRule = &rule{kind: "object", required: []string{"action"}, keys: map[string]*rule{
		"action": {kind: "string", enum: actions},
	}}
)

func with(a, b map[string]*rule) map[string]*rule {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// check lists what is wrong with a value, in the words of the live service.
func (r *rule) check(at string, v any) []string {
	if v == nil {
		if r.null {
			return nil
		}
		return []string{fmt.Sprintf("%s: got null, want %s", at, r.kind)}
	}
	if got := kindOf(v); got != r.kind {
		want := r.kind
		if r.null {
			want = "null or " + want
		}
		return []string{fmt.Sprintf("%s: got %s, want %s", at, got, want)}
	}
	switch v := v.(type) {
	case string:
		switch {
		case len([]rune(v)) < r.minLen:
			return []string{fmt.Sprintf("%s: minLength: got %d, want %d", at, len([]rune(v)), r.minLen)}
		case r.enum != nil && !slices.Contains(r.enum, v):
			return []string{fmt.Sprintf("%s: value must be one of '%s'", at, strings.Join(r.enum, "', '"))}
		}
	case float64:
		if r.min != 0 && v < float64(r.min) {
			return []string{fmt.Sprintf("%s: minimum: got %v, want %d", at, v, r.min)}
		}
	case []any:
		if r.maxItems != 0 && len(v) > r.maxItems {
			return []string{fmt.Sprintf("%s: maxItems: got %d, want %d", at, len(v), r.maxItems)}
		}
		var problems []string
		for i, item := range v {
			problems = append(problems, r.items.check(fmt.Sprintf("%s[%d]", at, i), item)...)
		}
		return problems
	case map[string]any:
		return r.checkObject(at, v)
	}
	return nil
}

func (r *rule) checkObject(at string, v map[string]any) (problems []string) {
	var missing, unknown []string
	for _, k := range r.required {
		if _, ok := v[k]; !ok {
			missing = append(missing, "'"+k+"'")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		of := r.keys[k]
		if r.keys == nil {
			of = text
		}
		if of == nil {
			unknown = append(unknown, "'"+k+"'")
			continue
		}
		problems = append(problems, of.check(at+"."+k, v[k])...)
	}
	switch len(missing) {
	case 0:
	case 1:
		problems = append(problems, at+": missing property "+missing[0])
	default:
		problems = append(problems, at+": missing properties "+strings.Join(missing, ", "))
	}
	if len(unknown) > 0 {
		problems = append(problems, at+": additional properties "+strings.Join(unknown, ", ")+" not allowed")
	}
	return problems
}

func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// A podRequest is the body of a create or a change, checked.
type podRequest struct {
	Name   *string           `json:"name"`
	Image  *string           `json:"image"`
	Args   *string           `json:"args"`
	Disk   *int              `json:"disk"`
	Ports  []string          `json:"ports"`
	Env    map[string]string `json:"env"`
	Mounts mounts            `json:"mounts"`
	GPU    *struct {
		ID      string   `json:"id"`
		Count   *int     `json:"count"`
		Allowed []string `json:"allowedCudaVersions"`
		Min     *string  `json:"minCudaVersion"`
	} `json:"gpu"`
	CPU         *json.RawMessage `json:"cpu"`
	Cloud       string           `json:"cloud"`
	DataCenters []string         `json:"dataCenterIds"`
	Registry    *string          `json:"registry"`
	Locked      *bool            `json:"locked"`
}

// mounts are a pod's; at most one of them is set.
type mounts struct {
	Persistent *persistent `json:"persistent,omitempty"`
	Network    []network   `json:"network,omitempty"`
}

type persistent struct {
	Size int    `json:"size"`
	Path string `json:"path"`
}

type network struct {
	VolumeID string `json:"volumeId"`
	Path     string `json:"path"`
}

// Limits that RunPod documents outside of its schemas.
const (
	maxBody      = 102_400 // bytes
	maxName      = 191
	maxVariables = 50
	maxHTTPPorts = 10
)

var (
	portPattern  = regexp.MustCompile(`^(\d{1,5})/(http|tcp)$`)
	imagePattern = regexp.MustCompile(`^[a-z0-9][\w.\-/:@]*$`)
	cudaPattern  = regexp.MustCompile(`^\d+(\.\d+)?$`)
)

// rules returns what the service checks beyond the schema; the first one that is
// broken, or "".
func (q *podRequest) rules(create bool) string {
	http := 0
	for _, p := range q.Ports {
		m := portPattern.FindStringSubmatch(p)
		if m == nil || m[1] == "0" {
			return fmt.Sprintf("invalid port %q: must be port/protocol", p)
		}
		if m[2] == "http" {
			http++
		}
	}
	switch {
	case q.Name != nil && len(*q.Name) > maxName:
		return fmt.Sprintf("name must be at most %d characters", maxName)
	case q.Image != nil && !imagePattern.MatchString(*q.Image):
		return "invalid image reference"
	case len(q.Env) > maxVariables:
		return fmt.Sprintf("at most %d environment variables are allowed", maxVariables)
	case http > maxHTTPPorts:
		return fmt.Sprintf("at most %d http ports are allowed", maxHTTPPorts)
	case q.Mounts.Persistent != nil && q.Mounts.Network != nil:
		return "mounts.persistent and mounts.network are mutually exclusive"
	case q.GPU != nil && q.CPU != nil, create && q.GPU == nil && q.CPU == nil:
		return "exactly one of gpu or cpu must be set"
	case q.CPU != nil && q.Mounts.Persistent != nil:
		return "mounts.persistent is not supported on CPU pods"
	case q.GPU != nil && q.GPU.Allowed != nil && q.GPU.Min != nil:
		return "gpu.allowedCudaVersions and gpu.minCudaVersion are mutually exclusive"
	case q.GPU != nil && q.GPU.Min != nil && !cudaPattern.MatchString(*q.GPU.Min):
		return "gpu.minCudaVersion must be major or major.minor"
	}
	return ""
}

// privatePorts returns the declared ports of one protocol, in order.
func privatePorts(ports []string, protocol string) []int {
	var found []int
	for _, p := range ports {
		if n, proto, _ := strings.Cut(p, "/"); proto == protocol {
			if port, err := strconv.Atoi(n); err == nil {
				found = append(found, port)
			}
		}
	}
	return found
}
