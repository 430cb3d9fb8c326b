package gpustate

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/exposition"
)

// A file needs no name to be recognised: by its header, or as the answer to one of
// the collector's own questions.
func TestOfTool(t *testing.T) {
	row := func(fields []string) string {
		cells := make([]string, len(fields))
		for i, field := range fields {
			switch field {
			case "uuid":
				cells[i] = "GPU-a"
			case "index":
				cells[i] = "0"
			case "utilization.gpu":
				cells[i] = "97"
			default:
				cells[i] = "[N/A]"
			}
		}
		return strings.Join(cells, ", ") + "\n"
	}
	tests := map[string]string{
		"a header":          "uuid, utilization.gpu [%]\nGPU-a, 97 %",
		"a raw file":        "t_us, uuid, utilization.gpu\n120, GPU-a, 97\n",
		"the full question": row(Questions[0]),
		"the older one":     row(Questions[1]),
		"the core fields":   row(Questions[2]),
		"an agent's stream": row(Streamed),
		"XML":               `<?xml version="1.0" encoding="UTF-16"?><nvidia_smi_log><gpu><uuid>GPU-a</uuid><utilization><gpu_util>97 %</gpu_util></utilization></gpu></nvidia_smi_log>`,
		"JSON":              `[{"uuid": "GPU-a", "utilization_gpu": 97}]`,
	}
	for name, body := range tests {
		tool, list, err := OfTool([]byte(body), true)
		if err != nil || tool == "" || len(list) != 1 || list[0].UUID != "GPU-a" || list[0].Values[Util] != 97 {
			t.Errorf("%s: %q, %+v, %v", name, tool, list, err)
		}
	}
	for _, fields := range Questions {
		body := row(fields) + goneSaid + "\n"
		if _, list, err := OfTool([]byte(body), true); err != nil || len(list) != 2 || list[0].UUID != "GPU-a" || !list[1].Lost {
			t.Errorf("%q: %+v, %v", body, list, err)
		}
	}
	if tool, list, err := OfTool([]byte(goneSaid+"\n"+tests["XML"]), true); err != nil || tool != "nvidia-smi -q -x" || len(list) != 2 {
		t.Errorf("XML behind a line: %s, %+v, %v", tool, list, err)
	}
	for _, body := range []string{"", "0, 1, 2\n", "vllm:x 1\n", "{}", "<html>"} {
		if _, list, err := OfTool([]byte(body), true); !errors.Is(err, ErrAnswer) {
			t.Errorf("%q: %+v, %v", body, list, err)
		}
	}
}

// Of two series for one quantity only one counts, and the other is known as such.
func TestOfPoints_uses(t *testing.T) {
	e, err := exposition.Parse([]byte(`nvidia_smi_power_draw_watts{uuid="a"} 60
nvidia_smi_power_draw_instant_watts{uuid="a"} 70
nvidia_smi_gpu_info{uuid="a",name="L4"} 1
nvidia_smi_fan_speed_ratio{uuid="a"} 0.3
`), true)
	if err != nil {
		t.Fatal(err)
	}
	page, ok := OfPoints(e.Points)
	want := map[string]Use{
		"nvidia_smi_power_draw_watts":         {Quantity: Power},
		"nvidia_smi_power_draw_instant_watts": {Quantity: Power, Instead: true},
		"nvidia_smi_gpu_info":                 {},
	}
	if diff := cmp.Diff(want, page.Uses); !ok || page.Exporter != "nvidia_gpu_exporter" || diff != "" {
		t.Errorf("%v, %s (-want +got):\n%s", ok, page.Exporter, diff)
	}
	if page, ok := OfPoints([]exposition.Point{{Name: "vllm:x", Value: 1}}); ok {
		t.Errorf("%+v", page)
	}
}

// The patterns of arguments are of this package's regular expressions and of the
// agent's; the agent's own tests run them.
func TestTools(t *testing.T) {
	for _, tool := range Tools() {
		args, err := regexp.Compile(`\A(` + tool.Args + `)\z`)
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		for _, o := range tool.Outputs {
			line, ok := strings.CutPrefix(strings.ReplaceAll(o.Command, "...", "index"), tool.Name+" ")
			if !ok || !args.MatchString(line) {
				t.Errorf("%s: the agent does not run %q, whose output is read", tool.Name, o.Command)
			}
		}
	}
	if !IsTool("amd-smi") || IsTool("rm") {
		t.Error("IsTool")
	}
}
