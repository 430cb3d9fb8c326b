package gpustate

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// A Tool is a program that shows GPUs, run beside a server or on a rented pod.
type Tool struct {
	Name string
	// Args is a regular expression of the whole command line behind the name, of
	// Go's and of Python's syntax: a pod's agent runs nothing else. It must not let
	// through an argument that changes a GPU or writes a file.
	Args string
	// Stream are the arguments with which the tool prints a line of [Streamed]
	// columns for each GPU each second; nil if it cannot.
	Stream  []string
	Outputs []Output
}

// An Output is one kind of what a tool prints, recognised by its content.
type Output struct {
	Command string // the tool's command line, for people
	Name    string // what it is called when it is found in a file
	Begins  string // how it begins if that tells it from all others; else ""
	// Parse fails with [ErrAnswer] if the body is something else. whole is as of
	// [ParseCSV].
	Parse func(body []byte, whole bool) ([]Reading, error)
}

// Tools returns all tools that are known. A new one is an entry here with the file of
// its parser, and a way of looking in collectors/gpu.
func Tools() []Tool {
	return []Tool{
		{
			Name: "nvidia-smi",
			Args: `(` + smiArg + `( ` + smiArg + `)*)?`,
			Stream: []string{
				"--query-gpu=" + strings.Join(Streamed, ","), "--format=csv,noheader,nounits", "-lms", "1000",
			},
			Outputs: []Output{
				{Command: "nvidia-smi --query-gpu=... --format=csv", Name: "nvidia-smi --query-gpu", Parse: parseAnyCSV},
				{Command: "nvidia-smi -q -x", Name: "nvidia-smi -q -x", Begins: "<", Parse: func(body []byte, _ bool) ([]Reading, error) {
					return ParseXML(bytes.TrimSpace(body))
				}},
			},
		},
		{
			Name: "amd-smi",
			Args: `(metric|list|process) --json`,
			// The JSON of an HTTP wrapper is read by the same parser.
			Outputs: []Output{{Command: "amd-smi metric --json", Name: "JSON of a tool of GPUs", Parse: ParseWrapper}},
		},
	}
}

// smiArg is one argument that nvidia-smi may have.
const smiArg = `(-L|--list-gpus|-q|--query|-x|--xml-format|--version|-h|--help` +
	`|(-i|--id)=[A-Za-z0-9:.,-]+|(-d|--display)=[A-Z_,]+` +
	`|--query-[a-z-]+=[A-Za-z0-9_.,]+|--format=[a-z,]+)`

// ToolNames returns the names of all tools.
func ToolNames() []string {
	var names []string
	for _, t := range Tools() {
		names = append(names, t.Name)
	}
	return names
}

// IsTool reports whether name is that of a tool.
func IsTool(name string) bool { return slices.Contains(ToolNames(), name) }

// Commands returns the command lines whose output [OfTool] reads, for people.
func Commands() []string {
	var list []string
	for _, t := range Tools() {
		for _, o := range t.Outputs {
			list = append(list, o.Command)
		}
	}
	return list
}

// OfTool reads what a tool printed into a file, whichever it was. whole is as of
// [ParseCSV].
func OfTool(body []byte, whole bool) (tool string, list []Reading, err error) {
	var others []Output
	document := bytes.TrimSpace(body)
	if i := bytes.IndexByte(document, '<'); i > 0 && LostGPU(string(document[:i])) {
		document = document[i:] // its parser gets the line before it too
	}
	for _, t := range Tools() {
		for _, o := range t.Outputs {
			if o.Begins == "" {
				others = append(others, o)
			} else if bytes.HasPrefix(document, []byte(o.Begins)) {
				list, err = o.Parse(body, whole)
				return o.Name, list, err
			}
		}
	}
	for _, o := range others {
		if list, err = o.Parse(body, whole); err == nil || !errors.Is(err, ErrAnswer) {
			return o.Name, list, err // an error that says what is the matter with the GPUs
		}
	}
	return "", nil, err
}

// parseAnyCSV reads CSV with a header, or with the columns of one of the
// collector's own questions: of those that in which most lines are a GPU's.
func parseAnyCSV(body []byte, whole bool) (best []Reading, err error) {
	for _, fields := range append([][]string{Streamed}, Questions...) {
		list, bad := ParseCSV(body, fields, whole)
		if bad != nil && best == nil {
			err = bad
		}
		if bad == nil && (best == nil || states(list) > states(best)) {
			best, err = list, nil
		}
	}
	return best, err
}
