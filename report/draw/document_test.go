package draw_test

import (
	"fmt"
	"os"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
)

func Example() {
	for _, style := range []draw.Style{
		{Width: 24, Paint: func(v conclude.Verdict, text string) string { return "<" + text + ">" }},
		{Markdown: true},
	} {
		d := draw.New(os.Stdout, style)
		d.Section("Nothing", nil)
		d.Section("Failed", []draw.Item{{Text: "exit: the *server* ended with 1", Quoted: []string{"\x1b[31mno memory"}, Below: []string{"vllm, 8"}}})
		d.Grid(draw.Grid{
			Name: "vllm", Down: "load", Values: []string{"128", "1024"},
			Rows: [][]draw.Field{{{Text: "8"}, {Text: "ok 10.5", Verdict: conclude.Acceptable}, {Text: "ok 8", Verdict: conclude.Acceptable}}},
		})
		fmt.Println(d.Err())
	}
	// Output:
	// Failed:
	//   exit: the *server*
	//     ended with 1
	//     vllm, 8
	//     | no memory
	//
	// vllm
	//   load  128      1024
	//   8     <ok 10.5>  <ok 8>
	//
	// <nil>
	// ## Failed
	//
	// - exit: the \*server\* ended with 1
	//   - vllm, 8
	//   - log: no memory
	//
	// ## vllm
	//
	// | load | 128 | 1024 |
	// | --- | --- | --- |
	// | 8 | ok 10.5 | ok 8 |
	//
	// <nil>
}

func ExampleDocument_Rows() {
	d := draw.New(os.Stdout, draw.Style{Width: 56})
	d.Rows(
		[]string{"name", "size", "meaning"},
		[]string{"one", "1", "a text that is too long for the terminal, so it goes on below"},
		[]string{"longest name", "12", ""},
	)
	d.Rows([]string{"a name that leaves no room beside it", "its meaning, which is longer"})
	d.Text("  and a rather long line that is broken below its own beginning")
	// Output:
	//   name          size  meaning
	//   one           1     a text that is too long for the
	//                       terminal, so it goes on below
	//   longest name  12
	//   a name that leaves no room beside it
	//       its meaning, which is longer
	//   and a rather long line that is broken below its own
	//     beginning
}
