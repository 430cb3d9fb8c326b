package pick

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// grid is two engines on two GPUs at three loads, without vllm on l4 at 16.
func grid() []Cell {
	var cells []Cell
	for _, engine := range []string{"vllm", "sglang"} {
		for _, gpu := range []string{"l4", "l40s"} {
			for _, c := range []float64{1, 8, 16} {
				if engine == "vllm" && gpu == "l4" && c == 16 {
					continue
				}
				cells = append(cells, Cell{
					ID:    fmt.Sprintf("%02xbc%04x", 16*len(cells), len(cells)),
					Label: fmt.Sprintf("%s %s concurrency=%v arg_tensor_parallel_size=2", engine, gpu, c),
					Settings: []Setting{
						{"engine", engine},
						{"gpu", gpu},
						{"concurrency", c},
						{"arg_tensor_parallel_size", 2.0},
						{"target_input_tokens", 512.0},
					},
				})
			}
		}
	}
	return cells
}

func TestCells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"00bc0000": "0", // an id, and the beginning of one
		"10b":      "1",
		"vllm l4 concurrency=8 arg_tensor_parallel_size=2": "1",

		// Values of axes; l4 is the GPU l4 and not the beginning of l40s.
		"vllm l4 c=8":          "1",
		"c=8 L4 vllm":          "1",
		"l4 c=8":               "1 6",
		"l4,c=8.0":             "1 6",
		"l40 c=16 sg":          "10",
		"users=16 vllm":        "4",
		"concurrency==16 vllm": "4",
		"engine=vllm c=1":      "0 2",
		"in=512 l4 c=8":        "1 6",
		"input_tokens=512 l4 c=8 args.tensor-parallel-size=2": "1 6",
		"tensor-parallel-size=2 l4 c=8":                       "1 6",

		// Expressions.
		`concurrency > 8 and gpu == "l40s"`: "4 10",
		`engine == "vllm"`:                  "0 1 2 3 4",
	} {
		got, err := Cells(text, grid())
		if said := strings.Trim(fmt.Sprint(got), "[]"); err != nil || said != want {
			t.Errorf("%s: cells %s (%v), want %s", text, said, err, want)
		}
	}
}

func TestCells_wrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                  "the cell is empty: want an id, a label, or values of axes like concurrency=1",
		"vlm":               `no cell is "vlm"; did you mean "vllm"?`,
		"h100":              `no cell is "h100": it is no id, and no engine, model or GPU of the run, which has vllm, l4, l40s, sglang`,
		"512":               `no cell is "512": say of which axis it is a value, like concurrency=1`,
		"c=7":               "no cell has c=7: the run has 1, 8, 16",
		"vllm l4 c=16":      "no cell has all of vllm, l4, c=16: each has cells of its own",
		"out=128":           "max_tokens is no axis of this run: its cells differ in engine, gpu, concurrency, arg_tensor_parallel_size, target_input_tokens",
		"concurency=8":      `no axis "concurency"; did you mean "concurrency"?`,
		"colour=red":        `no axis "colour": the cells of this run have engine, gpu, concurrency, arg_tensor_parallel_size, target_input_tokens`,
		"concurrency > 100": "concurrency > 100 is true for no cell of the run",
		"concurency > 100":  `did you mean "concurrency"?`,
		"concurrency > 'x'": "mismatched types",
		"c=":                "CELL",
		"vllm l4 (":         "CELL",
	} {
		got, err := Cells(text, grid())
		if err == nil {
			t.Errorf("%s: cells %v, want the error %s", text, got, want)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s", text, cmp.Diff(want, err.Error()))
		}
	}
}
