package core

import (
	"time"

	"sweep.dev/sweep/engine/catalog"
)

// Constants of the time of a step.
const (
	// MemoryEfficiency is the share of the data sheet's bandwidth that reading
	// weights reaches. Large device copies reach 90 to 93 % on HBM and GDDR
	// cards alike; the decode kernels of real engines come to 60 to 85 %.
	MemoryEfficiency = 0.92
	// ComputeEfficiency is the share of the peak rate that matrix products of
	// prefill size reach: half-precision ones of large libraries reach 60 to
	// 75 % of the dense peak, whole prefills 40 to 60 %.
	ComputeEfficiency = 0.55
	// StepOverhead is what a step costs beside its kernels: the replay of a
	// captured graph, sampling and what of the scheduling is not hidden behind
	// the step before.
	StepOverhead = 200 * time.Microsecond
	// LinkLatency is one all-reduce of a few bytes between GPUs of one host.
	LinkLatency = 10 * time.Microsecond
	// Jitter is the standard deviation of the logarithm of a step's time, of a server of
	// which no other is wanted.
	Jitter = 0.01
)

// Constants are what a server reaches of its data sheets, and what it costs beside that.
type Constants struct {
	Memory  float64       // share of the bandwidth that reading reaches
	Compute float64       // share of the peak rate that arithmetic reaches
	Step    time.Duration // of each step beside its kernels
	Start   time.Duration // of a step for each sequence that begins in it: tokenizing, admission
}

// Chosen returns the constants of a server of which nothing was measured.
func Chosen() Constants {
	return Constants{Memory: MemoryEfficiency, Compute: ComputeEfficiency, Step: StepOverhead}
}

// A Machine is one model on one or more GPUs that share it by tensor
// parallelism.
type Machine struct {
	GPU   catalog.GPU
	GPUs  int
	Model catalog.Model
	// DType is the type of weights and arithmetic: float32, float16 or bfloat16.
	DType string
	// KVElem is the size of one element of the KV cache in bytes.
	KVElem float64
	// Constants are those of the time of a step; the zero value is [Chosen].
	Constants Constants
}

// elem returns the size of a weight in bytes.
func (m *Machine) elem() float64 {
	if m.DType == "float32" {
		return 4
	}
	return 2
}

// WeightBytes returns the size of the model on each GPU.
func (m *Machine) WeightBytes() float64 {
	return float64(m.Model.Parameters) * m.elem() / float64(m.GPUs)
}

// KVBytesPerToken returns the size of one token's cache on each GPU. Heads are
// split over the GPUs, and repeated if there are fewer heads than GPUs.
func (m *Machine) KVBytesPerToken() float64 {
	return m.Model.KVBytesPerToken(m.KVElem) / float64(min(m.GPUs, m.Model.KVHeads))
}

// body returns the number of weights that every token passes: all but the embedding
// (a token reads one row of it) and the output matrix.
func (m *Machine) body() float64 {
	n := m.Model.Parameters - m.Model.Embedding()
	if !m.Model.Tied {
		n -= m.Model.Embedding()
	}
	return float64(n)
}

// DecodeBytes returns the bytes that one step of batch 1 reads on each GPU with a context
// of so many tokens: the body, the output matrix, the keys and values.
func (m *Machine) DecodeBytes(context int) float64 {
	return (m.body()+float64(m.Model.Embedding()))*m.elem()/float64(m.GPUs) + float64(context)*m.KVBytesPerToken()
}

// Work is the work of one step.
type Work struct {
	Tokens  int     // computed
	Sampled int     // tokens that pass the output matrix
	Context float64 // cached tokens read, over all sequences
	Pairs   float64 // (token, token it attends to), over all sequences
	Started int     // sequences that begin
}

// add counts n tokens of a sequence that has computed c before.
func (w *Work) add(c, n int, sampled bool) {
	w.Tokens += n
	w.Context += float64(c + n)
	w.Pairs += float64(n)*float64(c) + float64(n)*float64(n+1)/2
	if sampled {
		w.Sampled++
	}
}

// A Cost is the time of one step and what it was spent on.
type Cost struct {
	Total   time.Duration
	Memory  time.Duration // the memory's busy time
	Compute time.Duration // the arithmetic's busy time
}

// Step returns the time of one step.
func (m *Machine) Step(w Work) Cost {
	if w.Tokens == 0 {
		return Cost{}
	}
	n := float64(m.GPUs)
	head := float64(m.Model.Embedding())
	kv := m.KVBytesPerToken()
	attention := 4 * float64(m.Model.Layers*m.Model.Heads*m.Model.HeadDim)

	parts := [...]struct{ bytes, ops float64 }{
		{m.body() * m.elem() / n, 2 * m.body() * float64(w.Tokens) / n},
		{head * m.elem() / n, 2 * head * float64(w.Sampled) / n},
		{(w.Context + float64(w.Tokens)) * kv, attention * w.Pairs / n},
	}
	k := m.Constants
	if k == (Constants{}) {
		k = Chosen()
	}
	bandwidth := m.GPU.Bandwidth * 1e9 * k.Memory
	rate := m.GPU.TFLOPS[m.DType] * 1e12 * k.Compute
	var total, memory, compute float64
	for _, p := range parts {
		if p.ops == 0 {
			continue // nothing sampled: the output matrix is not read
		}
		memory += p.bytes / bandwidth
		compute += p.ops / rate
		total += max(p.bytes/bandwidth, p.ops/rate)
	}
	if m.GPUs > 1 {
		// A ring all-reduce moves 2(n-1)/n of the data over each link.
		bytes := float64(w.Tokens*m.Model.Hidden) * m.elem() * 2 * (n - 1) / n
		total += float64(2*m.Model.Layers) * (bytes/(m.GPU.Link*1e9) + LinkLatency.Seconds())
	}
	return Cost{
		Total:   seconds(total) + k.Step + time.Duration(w.Started)*k.Start,
		Memory:  seconds(memory),
		Compute: seconds(compute),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
