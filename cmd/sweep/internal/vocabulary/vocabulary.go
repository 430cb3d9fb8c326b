// Package vocabulary tells the plan language which plug-ins there are.
package vocabulary

import (
	"sweep.dev/sweep/backends"
	backendlist "sweep.dev/sweep/backends/all"
	collectorlist "sweep.dev/sweep/collectors/all"
	"sweep.dev/sweep/plan"
	sinklist "sweep.dev/sweep/sinks/all"
)

// All has every plug-in of this program.
func All() plan.Vocabulary {
	var v plan.Vocabulary
	for _, f := range backendlist.Factories(nil) {
		doc := backend(f)
		if f.Form != nil {
			doc.Under = func(decode func(any) error) plan.PluginDoc { return backend(f.Under(decode)) }
		}
		v.Backends = append(v.Backends, doc)
	}
	for _, f := range collectorlist.Collectors() {
		v.Collectors = append(v.Collectors, plan.PluginDoc{Kind: f.Kind, Doc: f.Doc, Config: f.Config})
	}
	for _, f := range sinklist.Factories() {
		v.Sinks = append(v.Sinks, plan.PluginDoc{Kind: f.Kind, Doc: f.Doc, Config: f.Config})
	}
	return v
}

// backend returns one as the plan language sees it.
func backend(f backends.Factory) plan.PluginDoc {
	return plan.PluginDoc{Kind: f.Kind, Doc: f.Doc, Config: f.Config, FreeGPU: f.FreeGPU, Given: f.Given, Applies: f.Applies, LoadPods: f.LoadPods, Launch: f.Launch}
}
