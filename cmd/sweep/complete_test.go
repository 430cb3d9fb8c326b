package main

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// TestComplete_tables holds that every name of the tables of completion is one of the
// commands, and that every command that takes an argument is in them.
func TestComplete_tables(t *testing.T) {
	t.Parallel()
	root := newApp().root()
	flagNames, commands := map[string]bool{}, map[string]*cli.Command{}
	var walk func(c *cli.Command, name string)
	walk = func(c *cli.Command, name string) {
		commands[name] = c
		for _, f := range c.Flags {
			flagNames[f.Names()[0]] = true
			flagNames[c.Name+" "+f.Names()[0]] = true
		}
		for _, sub := range c.Commands {
			walk(sub, name+" "+sub.Name)
		}
	}
	walk(root, "sweep")
	for name := range arguments() {
		if commands[name] == nil {
			t.Errorf("there is no command %s", name)
		}
	}
	for name := range flagValues() {
		if !flagNames[name] {
			t.Errorf("there is no flag %s", name)
		}
	}
	// These take no file, name or word of sweep's own: addresses, pods at a provider.
	none := map[string]bool{"sweep bench": true, "sweep probe": true, "sweep pods show": true, "sweep pods stop": true, "sweep pods start": true, "sweep pods terminate": true, "sweep sim": true}
	for name, c := range commands {
		if c.ArgsUsage != "" && arguments()[name] == nil && !none[name] {
			t.Errorf("%s takes %s, and nothing completes it", name, c.ArgsUsage)
		}
	}
}

// TestComplete_loads holds that the keys of a named load are those of load: of the name that
// is typed, or of those in the plan on the line.
func TestComplete_loads(t *testing.T) {
	t.Parallel()
	const file = "../../plans/chat-and-batch-loads.yaml"
	a := newApp()
	for line, want := range map[string]string{
		"run --set loads.night.max_to":                 "loads.night.max_tokens=",
		"run " + file + " --set loads.b":               "loads.batch.requests=",
		"run " + file + " --set loads.":                "loads.chat.prompts.input_tokens=",
		"run ../../plans --set loads.x.max_to":         "loads.x.max_tokens=",
		"run no-such.yaml --set loads.chat.max_tokens": "loads.chat.max_tokens=",
	} {
		words := strings.Split(line, " ")
		found := false
		for _, c := range a.complete(a.root(), words) {
			found = found || c.text == want
			if !strings.HasPrefix(c.text, words[len(words)-1]) {
				t.Errorf("%s: %q does not begin as the word does", line, c.text)
			}
		}
		if !found {
			t.Errorf("%s: no %q", line, want)
		}
	}
	for _, c := range a.complete(a.root(), []string{"run", "--set", "loads.ch"}) {
		t.Errorf("a load that nobody has named: %q", c.text)
	}
}

// TestComplete holds what the scripts of the shells rest on: whole words, with their
// descriptions, of one line each.
func TestComplete(t *testing.T) {
	t.Parallel()
	a := newApp()
	for line, want := range map[string]string{
		"po":                            "pods",
		"run --set x=1 --stric":         "--strict",
		"run -o out --cli":              "--client",
		"run --client=s":                "--client=std",
		"run --no-such=s":               "",
		"run --output ../sweep/complet": "../sweep/completion/",
		"help p":                        "plan probe pods",
		"gc --backend=do":               "--backend=docker",
		"cells --columns p95_probe_e":   "p95_probe_e2e_ms",
		"completion b":                  "bash",
		"list schema e":                 "engine",
		"list schema engine e":          "",
		"run -- --s":                    "",
	} {
		got := a.complete(a.root(), strings.Split(line, " "))
		texts := map[string]int{}
		for _, c := range got {
			texts[c.text]++
			if strings.ContainsAny(c.text+c.doc, "\t\n") {
				t.Errorf("%s: %q is no line", line, c)
			}
		}
		wanted := map[string]int{}
		for w := range strings.FieldsSeq(want) {
			wanted[w]++
		}
		if len(texts) != len(wanted) {
			t.Errorf("%s: %v, want %q", line, got, want)
		}
		for w := range wanted {
			if texts[w] == 0 {
				t.Errorf("%s: %v, want %q", line, got, want)
			}
		}
	}
}
