package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result"
)

func TestReadCompletion(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Completion{
		`{"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}`:     {"4", "stop", 1},
		`{"choices": [{"text": " 4", "finish_reason": "length"}]}`:                                                     {" 4", "length", result.Unknown},
		`{"choices": [{"message": {"content": null, "reasoning_content": "hm"}, "finish_reason": "length"}]}`:          {"", "length", result.Unknown},
		`{"choices": [{"message": {"content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "4"}]}}]}`: {"4", "", result.Unknown},
		`{"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"output_tokens": 0}, "error": {}}`:             {"", "stop", 0},
		`{"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}`:         {"4", "stop", result.Unknown},
	} {
		got, err := ReadCompletion([]byte(body))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", body, err, diff)
		}
	}
	for body, want := range map[string]string{
		`<html><h1>502 Bad Gateway</h1>`:  `not JSON`,
		`{"choices": [{"message": {"cont`: `not JSON`,
		``:                                `not JSON`,
		`{"choices": []}`:                 `no choice`,
		`{"choices": [{}]}`:               `no choice`,
		`{"id": "x"}`:                     `no choice`,
		`{"error": {"message": "the model is loading"}}`: `the model is loading`,
	} {
		if _, err := ReadCompletion([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
