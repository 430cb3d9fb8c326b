package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func (l *loader) checkPrompts(p *Plan) {
	pr := &p.Load.Prompts
	// Which kinds each key means something to.
	kindsOf := map[string]string{
		"input_tokens": "synthetic", "distribution": "synthetic", "spread": "synthetic", "shared_prefix": "synthetic",
		"texts": "inline", "file": "jsonl sharegpt", "reuse": "inline jsonl sharegpt",
	}
	for _, key := range []string{"input_tokens", "distribution", "spread", "shared_prefix", "texts", "file", "reuse"} {
		if strings.Contains(kindsOf[key], pr.Kind) {
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
	if pr.System != "" && p.Load.Endpoint == EndpointCompletions {
		l.ignored("the completions endpoint has no system message", "", "load", "prompts", "system")
	}
	switch pr.Kind {
	case PromptsSynthetic:
		l.checkSynthetic(pr)
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

func (l *loader) checkSynthetic(pr *Prompts) {
	if !l.given("input_tokens") {
		l.missing("nothing says how long a prompt is", "load.prompts.input_tokens or the axis input_tokens", "load", "prompts")
	}
	if pr.Distribution == "" {
		pr.Distribution = "fixed"
	}
	spread := l.has("load", "prompts", "spread")
	switch {
	case pr.Distribution == "fixed" && spread:
		l.ignored("the distribution is fixed", "write distribution: uniform, normal or lognormal", "load", "prompts", "spread")
	case pr.Distribution != "fixed" && !spread:
		l.missing("a "+pr.Distribution+" distribution needs a spread", "spread: 0.25", "load", "prompts", "distribution")
	case pr.Distribution == "uniform" && pr.Spread > 1:
		l.Report.Node(l.at("load", "prompts", "spread"), "range", "load.prompts.spread must be at most 1 for a uniform distribution: a prompt has no less than no tokens")
	}
}

// checkPromptFile reads the file once, for its digest: what is asked is part
// of what could change a measurement.
func (l *loader) checkPromptFile(pr *Prompts) {
	if pr.File == "" {
		if !l.has("load", "prompts", "file") {
			l.missing("load.prompts has no file", "file: prompts.jsonl", "load", "prompts", "file")
		}
		return
	}
	pr.FileRef = pr.File
	if !filepath.IsAbs(pr.File) {
		pr.File = filepath.Join(l.dir, pr.File)
	}
	at := l.at("load", "prompts", "file")
	// Looked at before it is opened: opening a pipe waits for its writer.
	info, err := os.Stat(pr.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Report.Node(at, "file", "there is no file %s", pr.FileRef).Hint = "the path is relative to the plan's folder"
		return
	case err != nil:
		l.Report.Node(at, "file", "%s cannot be read: %v", pr.FileRef, reason(err))
		return
	case !info.Mode().IsRegular():
		l.Report.Node(at, "file", "%s is not a regular file", pr.FileRef)
		return
	}
	f, err := os.Open(pr.File)
	if err != nil {
		l.Report.Node(at, "file", "%s cannot be read: %v", pr.FileRef, reason(err))
		return
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	switch {
	case err != nil:
		l.Report.Node(at, "file", "%s cannot be read: %v", pr.FileRef, reason(err))
	case n == 0:
		l.Report.Node(at, "file", "%s is empty", pr.FileRef)
	}
	pr.FileSHA256 = hex.EncodeToString(h.Sum(nil))
}

// reason is the cause of a file's error without its path, which the message
// has as the plan wrote it.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
