package engine

import (
	"strings"
	"testing"
)

// A plan may name any file of the machine as an engine's. The error about one
// that is no profile holds no word of it.
func TestParse_quotesNoOtherFile(t *testing.T) {
	for _, text := range []string{
		"root:x:0:0:canary:/root:/bin/canary\ndaemon:canary:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n",
		"canary: canary\npassword: canary\npassword: canary\n",
		"[canary]\naws_secret_access_key = canary\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\ncanary=\n-----END OPENSSH PRIVATE KEY-----\n",
		"canary",
		`{"auths": {"canary": {"auth": "canary"}}}`,
		"%YAML canary\n---\na: b\n",
		"a: !!canary canary\n",
		"a: !canary{ b\n",
		"a: *canary\n",
		"&canary &canary canary",
		"canary: 'canary\n",
		"- canary\n- canary: [canary\n",
		"a: b\n---\ncanary: c\n",
		"a: canary: canary\n",
		"\tcanary: canary\n",
		"@canary", "`canary`", "a: @canary", "a: %canary", "a: |canary\n", "? canary\n: canary",
		"canary\x00canary", "canary\xff",
	} {
		_, err := Parse([]byte(text))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A template may use what the documentation lists; one that cannot be bounded is
// refused.
func TestParseTemplate(t *testing.T) {
	v := Vars{Model: "m", Port: 7, Peers: map[string][]Address{"worker": {{Host: "a", Port: 1}, {Host: "b", Port: 2}}}}
	for text, want := range map[string]string{
		`{{.Model}}:{{.Port}}`:                                 "m:7",
		`{{or .Served .Model}}`:                                "m",
		`{{(index .Peers.worker 1).URL}}`:                      "http://b:2",
		`{{if eq .Port 7}}a{{else}}b{{end}}`:                   "a",
		`{{range .Peers.worker}}{{.Host}}={{$.Model}} {{end}}`: "a=m b=m ",
		`{{range $i, $p := $.Peers.worker}}{{$p}}{{end}}`:      "a:1b:2",
		`{{with .Served}}x{{else}}y{{end}}`:                    "y",

		`{{range 9}}{{end}}`:             "!range goes over",
		`{{range .Port}}{{end}}`:         "!range goes over",
		`{{$n := 9}}{{range $n}}{{end}}`: "!range goes over",
		`{{range .Peers}}{{end}}`:        "!range goes over",

		`{{range .Peers.worker}}{{range $.Peers.worker}}{{end}}{{end}}`: "!inside another",

		`{{range .Peers.worker}}{{if 1}}{{else}}{{range $.Peers.worker}}{{end}}{{end}}{{end}}`: "!inside another",
		`{{print .Model}}`:                              "!must not call print",
		`{{.Model | html}}`:                             "!must not call html",
		`{{if (printf "%d" 1)}}{{end}}`:                 "!must not call printf",
		`{{(index .Peers.worker (len (print 1))).URL}}`: "!must not call print",
		`{{define "a"}}{{end}}{{template "a"}}`:         "!must not call another",
		`{{block "a" .}}{{end}}`:                        "!must not call another",
		strings.Repeat("x", maxTemplate+1):              "!a template of more than 64 KiB",
	} {
		got, err := newBudget().render(text, v, func(string, ...any) (string, error) { return "", nil })
		if refusal, ok := strings.CutPrefix(want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%.80s: %q, %v, want %q", text, got, err, refusal)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// The templates of one command share their bounds.
func TestArgv_bounds(t *testing.T) {
	p, err := Parse([]byte("name: x\nroles: [{name: server, command: [serve]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	v := Vars{Model: strings.Repeat("m", 64<<10), Peers: map[string][]Address{"server": make([]Address, MaxReplicas)}}
	for element, want := range map[string]string{
		"{{.Model}}":              "more than 1024 KiB of text",
		`{{each "server" "URL"}}`: "more than 1024 KiB of text",
		"{{range .Peers.server}}{{if 0}}{{end}}{{end}}": "more than 1000000 steps",
	} {
		command := make([]string, 200)
		for i := range command {
			command[i] = element
		}
		if _, err := p.Argv("server", v, nil, command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", element, err)
		}
	}
}
