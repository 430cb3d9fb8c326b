// Package rules checks a decoded plan: keys that are missing, conflict or have no
// effect, and values that do not fit each other.
package rules

import (
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/internal/file"
)

// Checked is a plan with its defaults, and what its rules look at beside it. A
// rule changes nothing of it but the report.
type Checked struct {
	*file.File
	Plan     *plan.Plan
	Backend  plan.PluginDoc             // of the plan; zero if it names none that is known
	Profiles map[string]*engine.Profile // of the plan's engines, by key
	Config   *syntax.Node               // the user's configuration; nil if there is none
	// Manifests are those that the backend names; nil for none.
	Manifests *manifest.Set

	// The names that a plan may use.
	Backends, Engines, GPUs []string

	// Load is the name of the load that sees the plan so, "" in a plan with one; Each
	// are, of a whole plan, what its loads see.
	Load string
	Each []*Checked

	// Cells and Deployments are the expanded plan, for the rules of cells.
	Cells       []plan.Cell
	Deployments []plan.Deployment
}

// A Rule is one condition that every valid plan meets. All rules are applied, even
// if earlier ones found errors: a person wants all errors at once. So a rule may
// rely only on decoding and the defaults, and reports nothing if another rule
// reports the same error.
type Rule struct {
	Name  string
	Holds string
	Check func(*Checked)
}

// OfPlan are those of the plan as it is written. To add one is to write its check
// and to add it here, or a row to a table of keys.go where a key alone is needed, stands against another or has no effect.
var OfPlan = []Rule{
	{"required", "A plan says its version, its name and its backend.", (*Checked).required},
	{"needed", "A section has the keys without which it says nothing.", (*Checked).needed},

	{"model", "There is a model, here or in the matrix, and its revision is that of one model.", (*Checked).model},
	{"model-names", "A model is a name of the hub or a path of its files.", (*Checked).modelNames},
	{"engine", "The plan says which engine each cell has.", (*Checked).engine},
	{"engine-names", "Every engine has a profile.", (*Checked).engineNames},
	{"engine-used", "Every engine of the plan is that of a cell.", (*Checked).engineUsed},
	{"engine-args", "An engine gets arguments that it knows and that sweep does not set.", (*Checked).engineArgs},
	{"engine-env", "A variable of an engine's environment has a name that can be one.", (*Checked).engineEnv},
	{"engine-command", "A command line that takes the place of a profile's can be filled in.", (*Checked).engineCommand},
	{"roles", "A role is one that the engine has.", (*Checked).roles},
	{"engine-axes", "An axis of engines reaches every engine, and stands against no fixed value.", (*Checked).engineAxes},
	{"given", "Of a server that runs already, the plan changes nothing.", (*Checked).given},
	{"manifests", "An axis of manifests leads to a place in one, and its values are what may stand there.", (*Checked).manifests},
	{"reset-cache", "A cache is emptied where the engine has a call for it.", (*Checked).resetCache},

	{"gpus", "A GPU is one of the catalogue, or a label where the backend takes them.", (*Checked).gpus},
	{"prices", "A price is that of a GPU which a plan may name.", (*Checked).prices},
	{"zip", "Axes that are zipped are of one length.", (*Checked).zip},
	{"include", "A value of an included cell is of its axis' type.", (*Checked).include},

	{"loop", "Exactly one thing makes requests go.", (*Checked).loop},
	{"end", "Something ends a trial.", (*Checked).end},
	{"warmup", "A warm-up by time has prompts for as long as it takes.", (*Checked).warmup},
	{"stages", "Every stage has a rate and a length, and one of them sends.", (*Checked).stages},
	{"trace", "A trace that brings the lengths of prompts goes with prompts of any length.", (*Checked).trace},
	{"conversation", "Conversations are held at the endpoint that has them.", (*Checked).conversation},
	{"stop", "What ends a trial early is said, and a higher level can be told.", (*Checked).stop},
	{"load-pods", "Load pods are of a cluster in which servers run.", (*Checked).loadPods},
	{"axes-of-load", "A key of the load that is an axis is not set beside it.", (*Checked).axesOfLoad},
	{"max-tokens", "The length of an answer is bounded.", (*Checked).maxTokens},
	{"output", "How long answers are is said without contradiction, and every engine can do it.", (*Checked).output},
	{"stop-texts", "There are as many stop texts as the API takes.", (*Checked).stopTexts},
	{"either", "Of two keys that say the same there is one.", (*Checked).either},
	{"no-effect", "Every key has an effect.", (*Checked).noEffect},
	{"prompts", "Prompts come from somewhere, and their length is known.", (*Checked).prompts},
	{"spread", "Lengths that are spread have a spread that is possible.", (*Checked).spread},
	{"pairs", "Pairs of lengths are there, in one place, and are pairs.", (*Checked).pairs},
	{"body", "The body has no field that sweep sets.", (*Checked).body},
	{"headers", "A header has a name and a value that can be sent, once.", (*Checked).headers},
	{"request-headers", "A header of single requests differs between them, and holds no credential.", (*Checked).requestHeaders},

	{"find", "A search has an axis of its own, loads that go up, and objectives.", (*Checked).find},
	{"find-objectives", "A search can decide its objectives.", (*Checked).findObjectives},
	{"find-devices", "A search on several devices knows which they are.", (*Checked).findDevices},
	{"find-alone", "A search chooses its trials itself, and each tells all.", (*Checked).findAlone},
	{"repeats", "Trials that may end early have a cap, which leaves room for fewer.", (*Checked).repeats},
	{"compare", "What is compared is a server axis with a baseline, and takes turns.", (*Checked).compare},
	{"quality", "Answers are compared with those of a server of the matrix, and their body has no field that sweep sets.", (*Checked).quality},
	{"goodput", "Goodput has a bound, and is there if an objective reads it.", (*Checked).goodput},
	{"lifetime", "A pod lives long enough to measure.", (*Checked).lifetime},
	{"webhook", "The URL of a webhook is a reference.", (*Checked).webhook},
	{"trial-timeout", "A trial may last longer than it sends.", (*Checked).trialTimeout},
	{"measured", "An objective reads what is measured.", (*Checked).measured},
}

// OfCells are those of the cells, for plans in which all else is right.
var OfCells = []Rule{
	{"gpu-count", "The GPUs that the plan counts are those that the arguments of the engine take, and NIXL can move KV caches between them.", (*Checked).gpuArguments},
	{"identity", "Every cell has an id of its own.", (*Checked).identity},
	{"quality-files", "A file of lm-eval is of a deployment, and a deployment has one.", (*Checked).qualityFiles},
	{"concurrency-reached", "There are as many requests as are to be in flight.", (*Checked).concurrencyReached},
	{"texts", "There are as many texts as are sent, unless they may be sent again.", (*Checked).enoughTexts},
	{"until-cap", "The cap of a trial lets it have the requests that load.until wants at least.", (*Checked).untilCap},
}

// Apply applies rules in their order.
func (c *Checked) Apply(rules []Rule) {
	for _, r := range rules {
		r.Check(c)
	}
}
