package gpustate

import (
	"regexp"
	"strings"
)

// lost matches the words by which NVML says that a GPU no longer answers.
var lost = regexp.MustCompile(`(?i)unable to determine the device handle|gpu is lost|gpu requires reset|gpu reset required|fallen off the bus`)

// lostIndex finds the index of a GPU whose handle is gone. An older driver names
// the bus address there instead, which has more digits.
var lostIndex = regexp.MustCompile(`(?i)handle for gpu ?(\d{1,3})\b`)

// maxSaid bounds the text that is kept of a line.
const maxSaid = 200

// line returns the reading of a line that cannot be read as a GPU's state.
func line(n int, text string) Reading {
	r := New()
	r.say(n, text)
	if at := lostIndex.FindStringSubmatch(text); at != nil && r.Lost {
		r.Index = at[1]
	}
	return r
}

// say keeps text in place of the reading's state.
func (r *Reading) say(n int, text string) {
	r.Line, r.Said, r.Lost = n, cutSaid(text), lost.MatchString(text)
}

func cutSaid(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid]) + "..."
	}
	return text
}

// hasState reports whether list has a GPU's state, or says that a GPU is lost.
func hasState(list []Reading) bool {
	for i := range list {
		if list[i].Said == "" || list[i].Lost {
			return true
		}
	}
	return false
}

// states counts the readings that are a GPU's state or stand in its row.
func states(list []Reading) (n int) {
	for i := range list {
		if list[i].Said == "" || list[i].UUID != "" {
			n++
		}
	}
	return n
}

// LostGPU reports whether the output of a tool says that a GPU is lost.
func LostGPU(out string) bool { return lost.MatchString(out) }

// Seen reports whether one of the readings is a GPU's state.
func Seen(list []Reading) bool {
	for i := range list {
		if list[i].Said == "" {
			return true
		}
	}
	return false
}
