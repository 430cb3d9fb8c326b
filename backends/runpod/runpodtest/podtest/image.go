// Package podtest runs what a container would run as processes of this
// machine: the part of an emulated provider that is not the provider. There is
// no isolation. A container has a folder, an environment and ports of its own,
// and that is all.
//
// A program that uses it calls guard.Main first in main or TestMain: every
// container is under a guard, so that it ends when this process does, however
// that ends.
package podtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// An Image is what stands here for a container image.
type Image struct {
	// Pattern is what references it is for, as [path.Match] has it, but for
	// "**", which is anything: "vllm/vllm-openai:*".
	Pattern    string
	Entrypoint []string
	Cmd        []string
	Env        map[string]string
	Path       []string // folders before this machine's own PATH
	// Programs are shell scripts by name, which come before Path. A word in
	// braces is replaced by what Spec.Words has for it.
	Programs map[string]string
}

// Find returns the first image whose pattern a reference has.
func Find(images []Image, ref string) (Image, bool) {
	i := slices.IndexFunc(images, func(i Image) bool {
		if i.Pattern == "**" {
			return true
		}
		ok, err := path.Match(i.Pattern, ref)
		return err == nil && ok
	})
	if i < 0 {
		return Image{}, false
	}
	return images[i], true
}

// Command returns the command line of a container of this image. args are as RunPod
// has them: "" is the image's own command; a JSON object with entrypoint, cmd
// or both replaces those, as with docker run; any other text is split as a
// shell does and takes the place of the image's CMD.
func (i Image) Command(args string) ([]string, error) {
	entrypoint, cmd := i.Entrypoint, i.Cmd
	switch trimmed := strings.TrimSpace(args); {
	case trimmed == "":
	case strings.HasPrefix(trimmed, "{"):
		var a struct {
			Entrypoint []string `json:"entrypoint"`
			Cmd        []string `json:"cmd"`
		}
		d := json.NewDecoder(strings.NewReader(trimmed))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return nil, fmt.Errorf("args: %w", err)
		}
		if a.Entrypoint != nil {
			entrypoint, cmd = a.Entrypoint, nil
		}
		if a.Cmd != nil {
			cmd = a.Cmd
		}
	default:
		words, err := split(trimmed)
		if err != nil {
			return nil, fmt.Errorf("args: %w", err)
		}
		cmd = words
	}
	argv := slices.Concat(entrypoint, cmd)
	if len(argv) == 0 {
		return nil, errors.New("no command specified")
	}
	return argv, nil
}

// split splits a line into words as a POSIX shell does that expands nothing.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped := false, false
	var quote rune
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("unterminated quote")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// fill replaces {word} by words[word].
func fill(text string, words map[string]string) string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(words)) {
		pairs = append(pairs, "{"+k+"}", words[k])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Quote makes words a line for a shell.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
