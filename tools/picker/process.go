package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Headers that llm-d's picker sets: where Envoy sends a request, and which server the
// sidecar there lets compute its prompt.
const (
	destinationHeader = "x-gateway-destination-endpoint"
	prefillerHeader   = "x-prefiller-host-port"
)

// pieceLimit is the most that is sent to Envoy of a body at once, in bytes: it takes 64 KiB.
const pieceLimit = 62000

// A server answers Envoy, one stream for each request.
type server struct {
	extproc.UnimplementedExternalProcessorServer
	core *core
}

// An exchange is one request and its response, under way through Envoy.
type exchange struct {
	core     *core
	start    time.Time
	path, id string
	body     []byte
	sent     bool // the request is on its way
	report   report
}

// Process answers what Envoy says of one request until it has no more to say.
func (s *server) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	e := &exchange{core: s.core, start: time.Now(), report: report{Status: http.StatusBadGateway}}
	defer e.end(context.WithoutCancel(stream.Context())) // a stream that broke off is told too
	for {
		said, err := stream.Recv()
		if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		for _, answer := range e.answer(stream.Context(), said) {
			if err := stream.Send(answer); err != nil {
				return err
			}
			if answer.GetImmediateResponse() != nil {
				return nil
			}
		}
	}
}

// answer returns what Envoy is to do next. Bodies are FULL_DUPLEX_STREAMED: the request waits
// until all of it is known, a response goes on as it comes.
func (e *exchange) answer(ctx context.Context, said *extproc.ProcessingRequest) []*extproc.ProcessingResponse {
	switch {
	case said.GetRequestHeaders() != nil:
		h := said.GetRequestHeaders()
		e.path, _, _ = strings.Cut(header(h, ":path"), "?")
		e.id = header(h, "x-request-id")
		if h.EndOfStream {
			return e.send(ctx)
		}
	case said.GetRequestBody() != nil:
		b := said.GetRequestBody()
		e.body = append(e.body, b.Body...)
		if b.EndOfStream {
			return e.send(ctx)
		}
	case said.GetRequestTrailers() != nil:
		trailers := &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}}}
		if e.sent {
			return []*extproc.ProcessingResponse{trailers}
		}
		return append(e.send(ctx), trailers)
	case said.GetResponseHeaders() != nil:
		h := said.GetResponseHeaders()
		if code, err := strconv.Atoi(header(h, ":status")); err == nil {
			e.report.Status = code
		}
		e.report.Streaming = strings.HasPrefix(header(h, "content-type"), "text/event-stream")
		return []*extproc.ProcessingResponse{{Response: &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}}}}
	case said.GetResponseBody() != nil:
		b := said.GetResponseBody()
		e.report.see(b.Body, time.Since(e.start))
		var list []*extproc.ProcessingResponse
		for _, piece := range pieces(b.Body, b.EndOfStream) {
			list = append(list, &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: piece}})
		}
		return list
	case said.GetResponseTrailers() != nil:
		return []*extproc.ProcessingResponse{{Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}}}}
	}
	return nil
}

// send has a server picked, and lets the request go there.
func (e *exchange) send(ctx context.Context) []*extproc.ProcessingResponse {
	to, refused, why := e.core.pick(ctx, e.path, e.id, e.body)
	if refused != 0 {
		return []*extproc.ProcessingResponse{{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extproc.ImmediateResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode(refused)}, Body: []byte(why),
		}}}}
	}
	e.sent, e.report.ID = true, to.ID
	set := []*corev3.HeaderValueOption{option(destinationHeader, to.Destination)}
	if to.Prefiller != "" {
		set = append(set, option(prefillerHeader, to.Prefiller))
	}
	list := []*extproc.ProcessingResponse{{Response: &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{
		Response: &extproc.CommonResponse{ClearRouteCache: true, HeaderMutation: &extproc.HeaderMutation{SetHeaders: set}},
	}}}}
	if e.body == nil {
		return list
	}
	for _, piece := range pieces(e.body, true) {
		list = append(list, &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: piece}})
	}
	return list
}

// end reports a request that was sent.
func (e *exchange) end(ctx context.Context) {
	if e.report.ID != 0 {
		e.report.Seconds = time.Since(e.start).Seconds()
		e.core.tell(ctx, &e.report)
	}
}

// pieces returns what Envoy takes of a body.
func pieces(body []byte, last bool) (list []*extproc.BodyResponse) {
	for first := true; first || len(body) > 0; first = false {
		n := min(len(body), pieceLimit)
		list = append(list, &extproc.BodyResponse{Response: &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{
			Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: &extproc.StreamedBodyResponse{Body: body[:n], EndOfStream: last && n == len(body)}},
		}}})
		body = body[n:]
	}
	return list
}

func header(h *extproc.HttpHeaders, name string) string {
	for _, v := range h.GetHeaders().GetHeaders() {
		if v.Key == name {
			return string(v.RawValue) + v.Value // Envoy fills one of them
		}
	}
	return ""
}

func option(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
