package prom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/gpustate"
)

// A GPU is what a run would take of one from a body.
type GPU struct {
	Index  string `json:"index"`
	UUID   string `json:"uuid,omitempty"`
	Name   string `json:"name,omitempty"`
	Driver string `json:"driver,omitempty"`
	// Readings have the names and the units of the samples, in the order of the names.
	Readings []Reading `json:"readings"`
	Reasons  []string  `json:"reasons,omitempty"` // for which the clocks are held down
}

// An Unread is a line that could not be read.
type Unread struct {
	Line int    `json:"line,omitempty"` // from 1; 0 if the body has no lines
	GPU  string `json:"gpu,omitempty"`  // UUID or index, if it names one
	Lost bool   `json:"lost"`           // it says that the GPU is lost
	Text string `json:"text"`
}

// IterationStatistics is the tool of iteration statistics.
const IterationStatistics = "trtllm-serve's iteration statistics"

// Read explains how a run reads a body: metrics of an engine or an exporter of
// GPUs, output of nvidia-smi or amd-smi, or the iteration statistics of
// trtllm-serve. profiles are as of [Explain], whole as of
// [exposition.Parse].
func Read(profiles []*engine.Profile, body []byte, whole bool) (Explained, error) {
	body, err := exposition.Unwrap(body)
	if err != nil && len(body) == 0 {
		return Explained{}, err
	}
	whole = whole && err == nil
	if x, ok := readIterations(body); ok {
		return x, nil
	}
	e, err := exposition.Salvage(body, whole)
	if err == nil {
		return Explain(profiles, e, whole), nil
	}
	tool, list, bad := gpustate.OfTool(body, whole)
	switch {
	case bad == nil:
		x := Explained{Tool: tool, Families: []Family{}}
		x.GPUs, x.Looks = gpus(list)
		x.Unread = unread(list)
		return x, nil
	case !errors.Is(bad, gpustate.ErrAnswer), bytes.Contains(body, []byte("nvidia_smi_log")):
		return Explained{}, bad // it says what is the matter with the GPUs, or with the file
	case bytes.Equal(bytes.TrimSpace(body), []byte("[]")):
		return Explained{}, fmt.Errorf("%w: it is an empty list: the iterations of a server at rest, or another client has taken them", exposition.ErrNoMetrics)
	}
	return Explained{}, err
}

// readIterations reads iteration statistics; not ok for other JSON.
func readIterations(body []byte) (Explained, bool) {
	entries, err := parseIterations(body)
	if err != nil || len(entries) == 0 {
		return Explained{}, false
	}
	x := explain([]string{"trtllm"}, []*engine.Metrics{&iterations}, entries[len(entries)-1], true)
	x.Tool, x.Looks = IterationStatistics, len(entries)
	slices.SortFunc(x.Families, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return x, x.Count(IsQuantity) > 0
}

// readGPUs notes what an exporter of GPUs says in the families.
func (x *Explained) readGPUs(e *exposition.Exposition, byName map[string]*Family) {
	page, ok := gpustate.OfPoints(e.Points)
	if !ok {
		return
	}
	x.GPUs, _ = gpus(page.Readings)
	if len(x.Engines) == 0 {
		x.Engines = []string{page.Exporter}
	}
	for name, use := range page.Uses {
		f := byName[name]
		switch {
		case f == nil || f.Is != "":
		case use.Quantity == "":
			f.Meaning = "which GPU it is, how busy it is, its processes, or what holds its clocks down"
		case use.Instead:
			f.Is, f.Meaning = IsOther, "another name of "+use.Quantity
		default:
			f.Is = IsQuantity
			r := Reading{Quantity: use.Quantity, Unit: gpustate.Quantities[use.Quantity].Unit}
			if len(x.GPUs) == 1 {
				r.Value = x.GPUs[0].value(use.Quantity)
			}
			f.Readings = append(f.Readings, r)
		}
	}
}

func (g *GPU) value(quantity string) *float64 {
	for _, r := range g.Readings {
		if r.Quantity == quantity {
			return r.Value
		}
	}
	return nil
}

// unread returns the lines that are no GPU's state.
func unread(list []gpustate.Reading) (out []Unread) {
	for _, r := range list {
		if r.Said != "" {
			out = append(out, Unread{r.Line, cmp.Or(r.UUID, r.Index), r.Lost, r.Said})
		}
	}
	return out
}

// gpus returns the GPUs of some readings, as they were last told, and how often they
// were. One that was last told to be lost is left out.
func gpus(list []gpustate.Reading) (out []GPU, looks int) {
	type id struct{ key, part string }
	seen := make(map[id]int)
	at := make(map[id]int)
	var last []gpustate.Reading
	for _, r := range list {
		who := id{r.Key(), r.Part}
		if r.Lost {
			last = slices.DeleteFunc(last, func(old gpustate.Reading) bool {
				return r.UUID != "" && old.UUID == r.UUID || r.UUID == "" && r.Index != "" && old.Index == r.Index
			})
			clear(at)
			for i, old := range last {
				at[id{old.Key(), old.Part}] = i
			}
		}
		if r.Said != "" {
			continue
		}
		seen[who]++
		looks = max(looks, seen[who])
		if i, ok := at[who]; ok {
			last[i] = r
			continue
		}
		at[who] = len(last)
		last = append(last, r)
	}
	for _, r := range gpustate.Whole(last) {
		g := GPU{Index: r.Index, UUID: r.UUID, Name: r.Name, Driver: r.Driver, Reasons: slices.Sorted(maps.Keys(r.Reasons))}
		for _, q := range slices.Sorted(maps.Keys(r.Values)) {
			g.Readings = append(g.Readings, Reading{Quantity: q, Value: number(r.Values[q]), Unit: gpustate.Quantities[q].Unit})
		}
		out = append(out, g)
	}
	return out, looks
}
