package podtest

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Remap makes a command that was written for a container one for this machine,
// if there is no network of its own: every port that it was told to listen
// on becomes the one that ports has for it, and 0.0.0.0 becomes 127.0.0.1.
//
// A number is a port where it follows a flag whose name ends in "port" (or -p),
// is the value of such a flag, stands behind "host:", or is in a variable whose
// name has PORT in it. A variable that holds a list in JSON is looked into in the same way: a
// list in it as a command, an object as variables. Any other number is left alone: --max-model-len 8000 is
// not a port.
func Remap(argv []string, env map[string]string, ports map[int]int) ([]string, map[string]string) {
	argv, env = slices.Clone(argv), maps.Clone(env)
	for i, a := range argv {
		name, value, has := strings.Cut(a, "=")
		switch {
		case a == "0.0.0.0":
			argv[i] = loopback
		case has && portFlag.MatchString(name):
			argv[i] = name + "=" + swap(value, ports)
		case has && value == "0.0.0.0" && strings.HasPrefix(name, "-"):
			argv[i] = name + "=" + loopback
		case i > 0 && portFlag.MatchString(argv[i-1]):
			argv[i] = swap(a, ports)
		default:
			argv[i] = listen(a, ports)
		}
	}
	for name, value := range env {
		switch {
		// These are public ports already.
		case strings.HasPrefix(name, "RUNPOD_TCP_PORT_"):
		case value == "0.0.0.0":
			env[name] = loopback
		case portVariable.MatchString(name):
			env[name] = swap(value, ports)
		default:
			env[name] = listen(inside(value, ports), ports)
		}
	}
	return argv, env
}

// inside remaps what a list in JSON holds; any other text stays as it is.
func inside(text string, ports map[int]int) string {
	if !strings.HasPrefix(text, "[") {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	out, err := json.Marshal(remapped(v, ports))
	if err != nil {
		return text
	}
	return string(out)
}

func remapped(v any, ports map[int]int) any {
	switch v := v.(type) {
	case []any:
		argv := make([]string, len(v)) // "" for what is no text
		for i, item := range v {
			argv[i], _ = item.(string)
		}
		argv, _ = Remap(argv, nil, ports)
		for i, item := range v {
			if _, text := item.(string); text {
				v[i] = argv[i]
			} else {
				v[i] = remapped(item, ports)
			}
		}
	case map[string]any:
		for name, item := range v {
			if text, ok := item.(string); ok {
				_, env := Remap(nil, map[string]string{name: text}, ports)
				v[name] = env[name]
			} else {
				v[name] = remapped(item, ports)
			}
		}
	}
	return v
}

const loopback = "127.0.0.1"

var (
	portFlag     = regexp.MustCompile(`(?i)^(-p|--?([\w-]*[-_])?port)$`)
	portVariable = regexp.MustCompile(`(?i)(^|_)PORT(_|$)`)
	listenOn     = regexp.MustCompile(`^(0\.0\.0\.0|127\.0\.0\.1|localhost|):(\d{1,5})$`)
)

func swap(value string, ports map[int]int) string {
	if n, err := strconv.Atoi(value); err == nil && ports[n] != 0 {
		return strconv.Itoa(ports[n])
	}
	return value
}

// listen swaps the port of an address to listen on.
func listen(value string, ports map[int]int) string {
	m := listenOn.FindStringSubmatch(value)
	if m == nil || swap(m[2], ports) == m[2] {
		return value
	}
	return loopback + ":" + swap(m[2], ports)
}
