package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// Prefill and decode are told apart by the label of the role, and without a pod that
// decodes there is nothing to pick from.
func TestCore_args(t *testing.T) {
	t.Parallel()
	c := &core{options: options{target: 8000, picker: "max-score", verbose: 4}}
	decode, prefill := pod{"d1", "decode", "10.0.0.1"}, pod{"p1", "prefill", "10.0.0.2"}
	for _, test := range []struct {
		name string
		pods []pod
		want string // the last arguments; "" for none at all
	}{
		{"no pod", nil, ""},
		{"prefill alone", []pod{prefill}, ""},
		{"another role", []pod{{"x", "", "10.0.0.3"}}, ""},
		{"decode", []pod{decode, {"d2", "decode", "10.0.0.4"}}, "-v 4 --picker max-score --worker-urls http://10.0.0.1:8000#d1,http://10.0.0.4:8000#d2"},
		{"both", []pod{prefill, decode}, "--worker-urls http://10.0.0.1:8000#d1 --prefill-urls http://10.0.0.2:8000#p1"},
	} {
		got := strings.Join(c.args(test.pods), " ")
		if (got == "") != (test.want == "") || !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// answers is the simulated picker: a status and a body for each request.
type answers func(*http.Request) (int, string)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// ask lets Envoy send a request with a body in two halves.
func ask(t *testing.T, body string, picker answers) []*extproc.ProcessingResponse {
	t.Helper()
	e := &exchange{core: &core{client: &http.Client{Transport: picker}}}
	half := len(body) / 2
	var list []*extproc.ProcessingResponse
	for _, said := range []*extproc.ProcessingRequest{
		{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
			{Key: ":path", RawValue: []byte("/v1/completions?x=1")}, {Key: "x-request-id", RawValue: []byte("r1")},
		}}}}},
		{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(body[:half])}}},
		{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(body[half:]), EndOfStream: true}}},
	} {
		if len(list) > 0 {
			t.Error("the request goes on before all of it is known")
		}
		list = append(list, e.answer(t.Context(), said)...)
	}
	return list
}

// The servers that the simulated picker chose are the headers of the request, whose body
// goes on in pieces that Envoy takes.
func TestExchange_picked(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 2*pieceLimit+1)
	list := ask(t, body, func(r *http.Request) (int, string) {
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != body || r.Header.Get("X-Original-Path") != "/v1/completions" || r.Header.Get("X-Request-Id") != "r1" {
			t.Errorf("the picker was asked with %d bytes and %v: %v", len(got), r.Header, err)
		}
		return http.StatusOK, `{"ID": 7, "Destination": "10.0.0.1:8000", "Prefiller": "10.0.0.2:8000"}`
	})
	var set []string
	for _, o := range list[0].GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		set = append(set, o.Header.Key+" "+string(o.Header.RawValue))
	}
	if want := []string{destinationHeader + " 10.0.0.1:8000", prefillerHeader + " 10.0.0.2:8000"}; !slices.Equal(set, want) {
		t.Errorf("headers %q, want %q", set, want)
	}
	var sent strings.Builder
	for i, r := range list[1:] {
		piece := r.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if last := i == len(list)-2; piece.EndOfStream != last || len(piece.Body) > pieceLimit {
			t.Errorf("piece %d has %d bytes and ends the body: %v", i, len(piece.Body), piece.EndOfStream)
		}
		sent.Write(piece.Body)
	}
	if sent.String() != body {
		t.Errorf("%d bytes go on, want %d", sent.Len(), len(body))
	}
}

// A request that no server takes is answered with the status of the simulated picker.
func TestExchange_refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   int
	}{
		"shed":      {http.StatusTooManyRequests, "the pool is full\n", http.StatusTooManyRequests},
		"no answer": {http.StatusOK, "not JSON", http.StatusInternalServerError},
	} {
		list := ask(t, "{}", func(*http.Request) (int, string) { return c.status, c.body })
		if len(list) != 1 || int(list[0].GetImmediateResponse().GetStatus().GetCode()) != c.want {
			t.Errorf("%s: %v, want %d alone", name, list, c.want)
		}
	}
}

// Events are counted, not pieces: an event may come in several, and a piece may have several.
// The one with the usage has no tokens.
func TestReport_see(t *testing.T) {
	t.Parallel()
	r := report{Streaming: true}
	for i, piece := range []string{
		`data: {"choices":[{"del`, "ta\":{}}]}\n\n",
		"data: {\"choices\":[{}]}\n\ndata: {\"choices\":[{}]}\n\n: a comment\n\n",
		"data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n",
	} {
		r.see([]byte(piece), time.Duration(i+1)*time.Second)
	}
	if r.First != 2 || !slices.Equal(r.Gaps, []float64{1, 0}) || string(r.Usage) != `{"completion_tokens":3}` {
		t.Errorf("the first event after %v s, gaps %v, usage %s", r.First, r.Gaps, r.Usage)
	}
	whole := report{}
	whole.see([]byte(`{"usage":`), time.Second)
	whole.see([]byte(`{"completion_tokens":3}}`), 2*time.Second)
	if whole.First != 2 || string(whole.Usage) != `{"completion_tokens":3}` || whole.Bytes != 33 {
		t.Errorf("an answer that is no stream: %+v", whole)
	}
}
