package sim

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/fleet"
	"sweep.dev/sweep/sim/server"
)

// help begins and ends the text of --help; the flags stand between.
const (
	helpHead = `Usage: sweep sim [flags] [MODEL]

Runs a simulated inference engine: an OpenAI server in the dialect of vLLM or
another engine, in front of a GPU that is only arithmetic. Its answers mean
nothing; its timing, its metrics and its failures are those of the GPU and the
model that it is given.
  $ sweep sim --model Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --port 8000
  $ curl -s localhost:8000/v1/chat/completions \
      -d '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":8}'
  $ curl -s localhost:8000/metrics                       # in vLLM's names
  $ curl -s 'localhost:8000/sim/nvidia-smi?query=index,name,memory.used'

Flags have the names of vllm serve, with dashes or underscores:
`
	helpEngines = `
Other engines have their own flags, with dashes or underscores, beside --engine,
--engine-version, --model, --served-model-name, --gpu, --gpu-count, --host,
--port, --seed, --jitter, --card, --card-speed, --fitted, --time-scale,
--start-delay, --request-log and --fault. The newest release is spoken, or the
one that --engine-version names; of vllm 0.32.0 or 0.8.5.
`
	helpFaults = `
Faults for tests, as --fault NAME=VALUE, more than once or separated by commas:
`
	helpTail = `
EXIT STATUS
  0      stopped by a signal, or by the end of its context
  1      the engine failed to start; its last lines say why, in its own words
  2      usage: unrecognized arguments, invalid values (llama.cpp: 1)
  other  asked for with --fault
`
)

func printHelp(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprint(w, helpHead)
	fs.VisitAll(func(d *flag.Flag) {
		if strings.HasPrefix(d.Name, "no-") || strings.HasPrefix(d.Name, hidden) {
			return
		}
		value, usage := flag.UnquoteUsage(d)
		name := "--" + d.Name
		if b, ok := d.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			if fs.Lookup("no-"+d.Name) != nil {
				name = "--[no-]" + d.Name
			}
			value = ""
		}
		if value != "" {
			name += " " + strings.ToUpper(value)
		}
		if d.DefValue != "" && d.DefValue != "0" && d.DefValue != "false" && d.DefValue != "0s" {
			usage += " (default " + d.DefValue + ")"
		}
		fmt.Fprintf(w, "  %s\n        %s\n", name, plaintext.Wrap(usage, 72, "        "))
	})
	fmt.Fprint(w, helpEngines)
	for _, name := range dialect.Names()[1:] {
		d, err := dialect.New(name, "")
		if err != nil {
			continue // each of the names is one
		}
		fmt.Fprintf(w, "  --engine %s (%s)\n", name, strings.Join(dialect.Releases(name), ", "))
		for _, g := range d.Flags {
			if g.To != "" && !strings.HasPrefix(g.To, hidden) {
				fmt.Fprintf(w, "        %-32s as --%s\n", "--"+g.Names[0], strings.TrimSuffix(g.To+"="+g.As, "="))
			}
		}
	}
	fmt.Fprint(w, helpFaults)
	for _, k := range server.FaultKinds {
		fmt.Fprintf(w, "  %-22s %s\n", k.Name, plaintext.Wrap(k.Doc, 55, "                         "))
	}
	fmt.Fprint(w, fleet.Usage)
	fmt.Fprint(w, helpTail)
}

func modelNames() []string {
	var names []string
	for _, m := range catalog.Models() {
		names = append(names, m.Name)
	}
	return names
}
