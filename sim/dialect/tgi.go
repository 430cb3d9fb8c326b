package dialect

import "sweep.dev/sweep/sim/core"

// https://huggingface.co/docs/text-generation-inference/reference/launcher
const tgiFlags = `
	model-id=                       model
	hostname=                       host
	served-model-name=              served-model-name
	max-concurrent-requests=        x-concurrent
	max-input-tokens,max-input-length=  x-input-tokens
	max-total-tokens=               max-model-len
	max-batch-prefill-tokens=       max-num-batched-tokens
	max-batch-total-tokens=         x-kv-tokens
	max-batch-size=                 max-num-seqs
	max-waiting-tokens=
	waiting-served-ratio=
	num-shard=                      tensor-parallel-size
	sharded=
	cuda-memory-fraction=           gpu-memory-utilization
	dtype=                          dtype
	kv-cache-dtype=                 kv-cache-dtype
	quantize=
	revision=
	max-best-of=
	max-stop-sequences=
	validation-workers=
	shard-uds-path=
	prometheus-port=
	huggingface-hub-cache=
	cuda-graphs=
	trust-remote-code
	json-output
	disable-custom-kernels
	api-key=                        api-key
`

func tgi(d *Dialect) {
	d.Port = 3000
	d.Flags = flags(tgiFlags)
	d.Start = Start{Division: core.OfFree, Share: 0.98, Seqs: 128}
	d.Usage = Usage{
		Unknown: "error: unexpected argument '%s' found\n\nUsage: text-generation-launcher [OPTIONS]\n\nFor more information, try '--help'.", First: true,
		Missing: "error: a value is required for '--%s <VALUE>' but none was supplied\n\nFor more information, try '--help'.", Status: 2,
	}
}
