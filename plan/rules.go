package plan

import (
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/file"
)

// checked is a plan with its defaults, and what its rules look at beside it. A
// rule changes nothing of it but the report.
type checked struct {
	*file.File
	Plan     *Plan
	Backend  PluginDoc                  // of the plan; zero where it names none that is known
	Profiles map[string]*engine.Profile // of the plan's engines, by key
	Config   *syntax.Node               // the user's configuration; nil where there is none

	// The names that a plan may use.
	Backends, Engines, GPUs []string
}

func (l *loader) checked(p *Plan) *checked {
	return &checked{
		File: l.file, Plan: p, Backend: l.backend, Profiles: l.profiles, Config: l.config,
		Backends: kinds(l.opts.Vocabulary.Backends), Engines: l.profileNames(), GPUs: l.gpuNames(),
	}
}

// A rule is one thing that holds of every right plan. All rules are applied,
// whatever those before found: a person wants all of it at once. So a rule may
// rely on nothing but what decoding and the defaults give, and is silent where
// another one speaks.
type rule struct {
	name  string
	holds string
	check func(*checked)
}

// rules are those of the plan as it is written. To add one is to write its check
// and to add it here, or a row to a table of rulekeys.go where a key alone is
// needed, stands against another or has no effect.
var rules = []rule{
	{"required", "A plan says its version, its name and its backend.", (*checked).required},
	{"needed", "A section has the keys without which it says nothing.", (*checked).needed},

	{"model", "There is a model, here or in the matrix, and its revision is that of one model.", (*checked).model},
	{"model-names", "A model is a name of the hub or a path of its files.", (*checked).modelNames},
	{"engine", "The plan says which engine each cell has.", (*checked).engine},
	{"engine-names", "Every engine has a profile.", (*checked).engineNames},
	{"engine-used", "Every engine of the plan is that of a cell.", (*checked).engineUsed},
	{"engine-args", "An engine gets arguments that it knows and that sweep does not set.", (*checked).engineArgs},
	{"engine-env", "A variable of an engine's environment has a name that can be one.", (*checked).engineEnv},
	{"engine-command", "A command line that takes the place of a profile's can be filled in.", (*checked).engineCommand},
	{"roles", "A role is one that the engine has.", (*checked).roles},
	{"engine-axes", "An axis of engines reaches every engine, and stands against no fixed value.", (*checked).engineAxes},
	{"given", "Of a server that runs already, the plan changes nothing.", (*checked).given},
	{"reset-cache", "A cache is emptied where the engine has a call for it.", (*checked).resetCache},

	{"gpus", "A GPU is one of the catalogue, or a label where the backend takes them.", (*checked).gpus},
	{"prices", "A price is that of a GPU which a plan may name.", (*checked).prices},
	{"zip", "Axes that are zipped are of one length.", (*checked).zip},
	{"include", "A value of an included cell is of its axis' type.", (*checked).include},

	{"loop", "Exactly one thing makes requests go.", (*checked).loop},
	{"end", "Something ends a trial.", (*checked).end},
	{"warmup", "A warm-up by time has prompts for as long as it takes.", (*checked).warmup},
	{"stages", "Every stage has a rate and a length, and one of them sends.", (*checked).stages},
	{"trace", "A trace that brings the lengths of prompts goes with prompts of any length.", (*checked).trace},
	{"conversation", "Conversations are held at the endpoint that has them.", (*checked).conversation},
	{"stop", "What ends a trial early is said, and a higher level can be told.", (*checked).stop},
	{"axes-of-load", "A key of the load that is an axis is not set beside it.", (*checked).axesOfLoad},
	{"max-tokens", "The length of an answer is bounded.", (*checked).maxTokens},
	{"output", "How long answers are is said without contradiction, and every engine can do it.", (*checked).output},
	{"stop-texts", "There are as many stop texts as the API takes.", (*checked).stopTexts},
	{"either", "Of two keys that say the same there is one.", (*checked).either},
	{"no-effect", "Every key has an effect.", (*checked).noEffect},
	{"prompts", "Prompts come from somewhere, and their length is known.", (*checked).prompts},
	{"spread", "Lengths that are spread have a spread that is possible.", (*checked).spread},
	{"pairs", "Pairs of lengths are there, in one place, and are pairs.", (*checked).pairs},
	{"body", "The body has no field that sweep sets.", (*checked).body},
	{"headers", "A header has a name and a value that can be sent, once.", (*checked).headers},
	{"request-headers", "A header of single requests differs between them, and holds no credential.", (*checked).requestHeaders},

	{"goodput", "Goodput has a bound.", (*checked).goodput},
	{"lifetime", "A pod lives long enough to measure.", (*checked).lifetime},
	{"trial-timeout", "A trial may last longer than it sends.", (*checked).trialTimeout},
	{"measured", "An objective reads what is measured.", (*checked).measured},
}

// cellRules are those of the cells, for plans in which all else is right.
var cellRules = []rule{
	{"gpu-count", "The GPUs that the plan counts are those that the arguments of the engine take.", (*checked).gpuCount},
	{"identity", "Every cell has an id of its own.", (*checked).identity},
	{"concurrency-reached", "There are as many requests as are to be in flight.", (*checked).concurrencyReached},
	{"texts", "There are as many texts as are sent, unless they may be sent again.", (*checked).enoughTexts},
	{"until-cap", "The cap of a trial lets it have the requests that load.until wants at least.", (*checked).untilCap},
}

func (c *checked) apply(rules []rule) {
	for _, r := range rules {
		r.check(c)
	}
}
