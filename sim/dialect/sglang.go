package dialect

import "sweep.dev/sweep/sim/core"

// https://docs.sglang.ai/advanced_features/server_arguments.html
const sglangFlags = `
	model-path=                          model
	tokenizer-path=
	tokenizer-mode=
	context-length=                      max-model-len
	mem-fraction-static=                 gpu-memory-utilization
	max-running-requests=                max-num-seqs
	max-queued-requests=                 x-queue
	max-total-tokens=                    x-kv-tokens
	chunked-prefill-size=                max-num-batched-tokens
	max-prefill-tokens=
	schedule-policy=
	schedule-conservativeness=
	disable-radix-cache                  enable-prefix-caching=false
	tensor-parallel-size,tp-size,tp=     tensor-parallel-size
	data-parallel-size,dp-size,dp=
	random-seed=                         seed
	enable-metrics                       x-metrics=true
	enable-cache-report                  enable-prompt-tokens-details=true
	stream-interval=
	attention-backend=
	sampling-backend=
	cuda-graph-max-bs=
	cuda-graph-max-bs-decode=
	disable-cuda-graph
	disable-overlap-schedule
	enable-torch-compile
	trust-remote-code
	log-level=
	log-requests
	decode-log-interval=
	watchdog-timeout=
	load-format=
	revision=
	download-dir=
	chat-template=
	dtype=                               dtype
	kv-cache-dtype=                      kv-cache-dtype
	served-model-name=                   served-model-name
	api-key=                             api-key
`

func sglang(d *Dialect) {
	d.Port = 30000
	d.Flags = flags(sglangFlags)
	d.Start = Start{Division: core.Static, Share: 0.85, Shrinks: true}
	d.Usage = argparse("launch_server.py")
}
