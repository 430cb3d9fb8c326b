package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/executor/serving/ready"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/result"
)

// A found is what a server says of itself.
type found struct {
	engine  string // the name of a profile
	version string // "" where it does not say
	model   string
}

// title returns the engine and its version.
func (f *found) title() string { return strings.TrimSpace(f.engine + " " + plaintext.Line(f.version)) }

// unknownEngine is the profile of which nothing but the API itself is asked.
const unknownEngine = "generic-openai"

// look asks a server for its models, its metrics and its version: three requests, none
// of which computes a token.
func (a *app) look(ctx context.Context, b *benchmark, key string, options planfile.Options) (*found, error) {
	// The backend of a plan is asked, so that the same rules hold as in its run.
	draft := *b
	draft.Engine, draft.SLOs = unknownEngine, nil
	if draft.Model == "" {
		draft.Model = "any"
	}
	_, made, err := a.parse(benchName, draft.plan(), options)
	if err != nil {
		return nil, err
	}
	server, ok := made.backend.(interface {
		backends.Standing
		backends.Server
	})
	if !ok {
		return nil, fmt.Errorf("%s: its servers cannot be asked", made.factory.Kind)
	}
	var secrets []secret.String
	if key != "" {
		secrets = append(secrets, secret.New("${"+b.Key+"}", key))
	}
	api := ask.New(server.Hosts("", true)[0], func(h http.Header) { server.Authorize(h) }, secret.NewMask(secrets), func(string) {})
	defer api.Close()

	f := &found{engine: unknownEngine, model: b.Model}
	body, err := api.Get(ctx, "/v1/models")
	if _, ok := errors.AsType[*ask.Status](err); ok && b.Model != "" {
		err, body = nil, []byte("{}") // not every server lists its models, or to everybody
	}
	if err != nil {
		return nil, unanswered(err)
	}
	models, err := ask.Models(body)
	if err != nil && b.Model == "" {
		return nil, &statusError{exitIncomplete, &hinted{
			fmt.Errorf("GET /v1/models answered %.40q, which is no list of models", plaintext.Line(string(body))),
			"is this the address of an OpenAI-compatible API, with the path that stands before its /v1?",
		}}
	}
	switch slices.Sort(models); {
	case f.model != "":
	case len(models) == 0:
		return nil, &usage{&hinted{errors.New("the server lists no model"), "--model MODEL names the one to ask for"}}
	case len(models) > 1:
		return nil, &usage{&hinted{
			fmt.Errorf("the server has %d models: %s", len(models), plaintext.Line(humanize.List(models, ready.MaxListed))), "--model MODEL names the one to measure",
		}}
	default:
		f.model = models[0]
	}
	if metrics, err := api.Get(ctx, "/metrics"); err == nil {
		if name, _ := engineOf(metrics); name != "" {
			f.engine = name
		}
	}
	profile, ok := engine.Lookup(f.engine)
	if !ok || profile.API.Version == "" {
		return f, nil
	}
	if body, err := api.Get(ctx, profile.API.Version); err == nil {
		var said map[string]any
		if json.Unmarshal(body, &said) == nil {
			f.version, _ = said[profile.API.VersionField].(string)
		}
	}
	return f, nil
}

const (
	hintNotUp    = "is the server up, and is this its address?"
	hintNotReady = "the server is not ready, or what stands before it cannot reach it: try again once it answers"
)

// unanswered says of the first question what its failure means, and what to do.
func unanswered(err error) error {
	hint := hintNotUp
	code := exitIncomplete
	if lasting := ask.Lasting(err); lasting != nil {
		hint = lasting.Hint
		switch lasting.Class {
		case result.ErrAuth:
			code, hint = exitProvider, "the server does not take the key: --key-env NAME or --key-file FILE says where it is"
		case result.ErrRejected:
			hint = "the server does not have this path: is this the address of an OpenAI-compatible API, with the path that stands before its /v1?"
		}
	}
	if status, ok := errors.AsType[*ask.Status](err); ok && status.Code >= 500 {
		hint = hintNotReady
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		hint = fmt.Sprintf("the name %s does not resolve: check it, and this machine's DNS", plaintext.Line(name.Name))
	}
	return &statusError{code, &hinted{err, hint}}
}

// engineOf returns the engine whose series are most of a page of metrics, "" for none that
// sweep knows, and how many series there are.
func engineOf(metrics []byte) (name string, series int) {
	names := map[string]bool{}
	for line := range strings.Lines(string(metrics)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		series++
		names[strings.FieldsFunc(line, func(r rune) bool { return r == '{' || r == ' ' })[0]] = true
	}
	hits := 0
	for _, candidate := range engine.Names() {
		profile, ok := engine.Lookup(candidate)
		if !ok || profile.Like != "" {
			continue // a variant has the series of what it is like
		}
		n := 0
		for _, ways := range profile.Metrics.Series {
			for _, s := range ways {
				if names[s.Name] || names[s.Name+"_count"] {
					n++
					break
				}
			}
		}
		if n > hits {
			name, hits = candidate, n
		}
	}
	return name, series
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
