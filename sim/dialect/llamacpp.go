package dialect

import "sweep.dev/sweep/sim/core"

// https://github.com/ggml-org/llama.cpp/tree/master/tools/server
const llamacppFlags = `
	model,m=                  model
	alias,a=                  served-model-name
	ctx-size,c=               x-context
	parallel,np=              max-num-seqs
	kv-unified,kvu            x-unified=true
	no-kv-unified             x-unified=false
	n-gpu-layers,gpu-layers,ngl=
	batch-size,b=             max-num-batched-tokens
	ubatch-size,ub=
	n-predict,n=
	seed,s=                   seed
	metrics                   x-metrics=true
	cache-prompt              enable-prefix-caching=true
	no-cache-prompt           enable-prefix-caching=false
	sse-ping-interval=        x-ping
	cache-type-k,ctk=
	cache-type-v,ctv=
	threads,t=
	threads-batch,tb=
	threads-http=
	flash-attn,fa=
	split-mode,sm=
	tensor-split,ts=
	main-gpu,mg=
	device,dev=
	cache-ram=
	cache-reuse=
	timeout,to=
	chat-template=
	reasoning-format=
	reasoning-budget=
	prio=
	numa=
	cont-batching,cb
	no-cont-batching,nocb
	context-shift
	no-context-shift
	jinja
	no-jinja
	mlock
	mmap
	no-mmap
	slots
	no-slots
	warmup
	no-warmup
	perf
	no-perf
	webui
	no-webui
	verbose,v
	api-key=                  api-key
`

func llamacpp(d *Dialect) {
	d.Port = 8080
	d.Flags = flags(llamacppFlags)
	d.Start = Start{Division: core.Fixed, Share: 1, Seqs: 4}
	d.Usage = Usage{Unknown: "error: invalid argument: %s", First: true, Missing: "error while handling argument \"--%s\": expected value for argument", Status: 1}
}
