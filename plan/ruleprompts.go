package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/syntax"
)

func (l *loader) checkPrompts(p *Plan) {
	pr := &p.Load.Prompts
	// Which kinds each key means something to.
	kindsOf := map[string]string{
		"input_tokens": "synthetic", "distribution": "synthetic", "spread": "synthetic", "shared_prefix": "synthetic",
		"pairs": "synthetic", "pairs_file": "synthetic", "prefix_groups": "synthetic", "length": "synthetic",
		"texts": "inline", "file": "jsonl sharegpt csv", "reuse": "inline jsonl sharegpt csv", "cache_bust": "inline jsonl sharegpt csv",
	}
	for _, key := range slices.Sorted(maps.Keys(kindsOf)) {
		if slices.Contains(strings.Fields(kindsOf[key]), pr.Kind) {
			continue
		}
		why := "prompts are " + pr.Kind
		if l.has("load", "prompts", key) {
			l.ignored(why, "it belongs to kind: "+strings.ReplaceAll(kindsOf[key], " ", " or "), "load", "prompts", key)
		}
		if loadPath(key) != nil && l.has("matrix", key) {
			l.ignored(why, "it belongs to kind: "+kindsOf[key], "matrix", key)
		}
	}
	switch pr.Kind {
	case PromptsSynthetic:
		l.checkSynthetic(p)
	case "inline":
		if pr.Reuse == "" {
			pr.Reuse = "never"
		}
		if n, ok := l.root.At("load", "prompts", "texts"); !ok || len(n.Items) == 0 {
			l.missing("load.prompts has no texts", "texts: [...]", "load", "prompts", "texts")
		}
	default:
		if pr.Reuse == "" {
			pr.Reuse = "never"
		}
		l.checkPromptFile(pr)
	}
}

func (l *loader) checkSynthetic(p *Plan) {
	pr := &p.Load.Prompts
	brought, known := l.lengths(p)
	switch {
	case known && brought == "" && !l.given("input_tokens") && l.mistyped("input_tokens"):
	case known && brought == "" && !l.given("input_tokens"):
		l.missing("nothing says how long a prompt is", "load.prompts.input_tokens or the axis input_tokens", "load", "prompts")
	case brought != "" && l.given("input_tokens"):
		l.ignored(brought, "", l.where("input_tokens")...)
	}
	if p.Load.Trace.Lengths() {
		return
	}
	if pr.Distribution == "" {
		pr.Distribution = "fixed"
	}
	l.checkPairs(pr)
	spread := l.has("load", "prompts", "spread")
	switch {
	case pr.Distribution == Empirical || pr.Distribution == "fixed":
	case !spread:
		l.missing("a "+pr.Distribution+" distribution needs a spread", "spread: 0.25", "load", "prompts", "distribution")
	case pr.Distribution == "uniform" && pr.Spread > 1:
		l.Report.Node(l.at("load", "prompts", "spread"), "range", "load.prompts.spread must be at most 1 for a uniform distribution: a prompt has no less than no tokens")
	}
}

// checkPairs checks what an empirical distribution draws from.
func (l *loader) checkPairs(pr *Prompts) {
	list, file := l.has("load", "prompts", "pairs"), l.has("load", "prompts", "pairs_file")
	switch {
	case pr.Distribution != Empirical:
		for _, key := range []string{"pairs", "pairs_file"} {
			if l.has("load", "prompts", key) {
				l.ignored("the distribution is "+pr.Distribution, "write distribution: empirical", "load", "prompts", key)
			}
		}
		return
	case list && file:
		l.conflict("keep one of them", path("load", "prompts", "pairs_file"), "load.prompts has both pairs and a pairs_file")
	case !list && !file:
		l.missing("an empirical distribution needs pairs of lengths", "pairs: [[200, 100], [1k, 50]], or pairs_file", "load", "prompts", "distribution")
	}
	if n, _ := l.root.At("load", "prompts", "pairs"); list && n.Kind == syntax.List {
		if len(n.Items) == 0 {
			l.Report.Node(n, "value", "load.prompts.pairs is empty").Expected = "pairs: [[200, 100], [1k, 50]]"
		}
		for i, pair := range n.Items {
			if pair.Kind == syntax.List && len(pair.Items) != 2 {
				l.Report.Node(pair, "value", "load.prompts.pairs[%d] has %s", i, humanize.Plural(len(pair.Items), "length")).Expected = "two: of the input and of the output, like [200, 100]"
			}
		}
	}
	if pr.PairsFile != "" {
		pr.PairsRef = pr.PairsFile
		pr.PairsFile, pr.PairsSHA256 = l.digestFile(pr.PairsFile, "load", "prompts", "pairs_file")
	}
}

func (l *loader) checkPromptFile(pr *Prompts) {
	if pr.File == "" {
		if !l.has("load", "prompts", "file") {
			l.missing("load.prompts has no file", "file: prompts.jsonl", "load", "prompts", "file")
		}
		return
	}
	pr.FileRef = pr.File
	pr.File, pr.FileSHA256 = l.digestFile(pr.File, "load", "prompts", "file")
}

// digestFile reads a file that a plan names once, for its digest: what is asked
// is part of what could change a measurement. It returns where the file is.
func (l *loader) digestFile(ref string, keys ...string) (file, sum string) {
	file = ref
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.dir, file)
	}
	at := l.at(keys...)
	f, err := input.Open(file, input.MaxData)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Report.Node(at, "file", "there is no file %s", ref).Hint = "the path is relative to the plan's folder"
		return file, ""
	case err != nil:
		l.Report.Node(at, "file", "%s cannot be read: %v", ref, input.Reason(err))
		return file, ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		l.Report.Node(at, "file", "%s cannot be read: %v", ref, input.Reason(err))
	}
	return file, hex.EncodeToString(h.Sum(nil))
}
