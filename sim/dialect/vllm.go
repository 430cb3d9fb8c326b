package dialect

func vllm(d *Dialect) {
	d.Usage = Usage{Unknown: "error: unrecognized arguments: %s", Missing: "error: argument --%s: expected one argument", Status: 2}
}
