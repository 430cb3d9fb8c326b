package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/internal/exposition"
)

// A scrape is one look at a target.
type scrape struct {
	seq        int
	at         time.Duration          // when the answer began, on the trial's clock
	status     int                    // 0 if there was no answer
	body       []byte                 // valid until the next scrape
	whole      bool                   // the transport vouches for the body's end
	started    float64                // when the server's process started, 0 if it does not say
	exposition *exposition.Exposition // nil beside an error
	processing time.Duration          // what reading the answers cost us
	err        error

	// The iteration statistics, where the engine has those. An answer empties
	// the server's queue, so each is asked for once.
	iterated   []byte
	iterations []*exposition.Exposition
}

// A scraper fetches bodies from one target, one at a time.
type scraper struct {
	client *http.Client
	base   string
	// paths are where metrics may be, until one was found to have them.
	paths     []string
	iterated  string // the path of iteration statistics, or ""
	authorize func(http.Header)
	asked     func()               // may be nil
	since     func() time.Duration // the trial's clock
	// reading is held while an answer is read into values, so that of several
	// targets only one costs us a CPU and the memory for that.
	reading *sync.Mutex
	seq     int
	buffer  []byte
	dials   *collectors.Dials
}

func newScraper(t collectors.Target, paths []string) (*scraper, error) {
	addr := t.Host.URL()
	if t.MetricsAddr != "" {
		addr = "http://" + t.MetricsAddr
	}
	base, err := url.Parse(addr)
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	s := &scraper{
		base:     strings.TrimSuffix(base.String(), "/"),
		paths:    paths,
		iterated: t.Metrics.Iterations,
		dials:    collectors.NewDials(t.Host.Dial),
	}
	transport := &http.Transport{
		DialContext: s.dials.Dial,
		// Only one connection is ever needed, and no proxy stands between.
		MaxConnsPerHost:        1,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        time.Minute,
	}
	s.client = &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		err := sameHost(req, via)
		if err == nil && s.asked != nil {
			s.asked()
		}
		return err
	}}
	return s, nil
}

// url returns where the metrics are, or the first place where they may be.
func (s *scraper) url() string {
	if len(s.paths) > 0 {
		return s.base + s.paths[0]
	}
	return s.base + s.iterated
}

// sameHost follows an engine from /metrics to /metrics/ but nowhere else: the
// request may carry a key.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return errors.New("redirected to another host")
	}
	if len(via) > 3 {
		return errors.New("too many redirects")
	}
	return nil
}

func (s *scraper) close() {
	s.dials.End()
	s.client.CloseIdleConnections()
}

// scrape takes one look. It takes limit at most, and keeps 32 MiB at most.
func (s *scraper) scrape(ctx context.Context, limit time.Duration) *scrape {
	out := &scrape{seq: s.seq}
	s.seq++
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no complete answer within %v", limit))
	defer cancel()
	err := s.metrics(ctx, out)
	if err == nil && s.iterated != "" {
		err = s.iterate(ctx, out)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		out.err = err
		out.exposition, out.iterations = nil, nil
	}
	return out
}

var errSwitchedOff = errors.New("the server has no metrics at this path: they may be switched off (status 404)")

// metrics fetches the exposition. Until one of the paths had metrics they are
// tried in turn.
func (s *scraper) metrics(ctx context.Context, out *scrape) error {
	if len(s.paths) == 0 {
		out.exposition = new(exposition.Exposition)
		return nil
	}
	var first error
	for _, path := range s.paths {
		err := s.fetch(ctx, out, path)
		if err == nil {
			out.exposition, err = s.parse(out)
		}
		if err == nil {
			s.paths = []string{path}
			return nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, errSwitchedOff) && !errors.Is(err, exposition.ErrNoMetrics) {
			break
		}
	}
	return first
}

func (s *scraper) iterate(ctx context.Context, out *scrape) error {
	answer := &scrape{}
	buffer := s.buffer
	s.buffer = nil // the metrics are still in it
	err := s.fetch(ctx, answer, s.iterated)
	s.buffer = buffer
	out.processing += answer.processing
	if errors.Is(err, errSwitchedOff) && len(s.paths) > 0 {
		s.iterated = "" // this server was started without them
		return nil
	}
	if err != nil {
		return fmt.Errorf("iteration statistics: %w", err)
	}
	if len(s.paths) == 0 {
		out.at, out.status = answer.at, answer.status
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	begun := time.Now()
	defer func() { out.processing += time.Since(begun) }()
	out.iterated = answer.body
	if out.iterations, err = parseIterations(answer.body); err != nil {
		return fmt.Errorf("iteration statistics: %w", err)
	}
	return nil
}

func (s *scraper) parse(out *scrape) (*exposition.Exposition, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	begun := time.Now()
	defer func() { out.processing += time.Since(begun) }()
	return exposition.Parse(out.body, out.whole)
}

func (s *scraper) fetch(ctx context.Context, out *scrape, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return err
	}
	// Asked for OpenMetrics, some servers answer in it; the plain format is
	// what every engine and this reader know best.
	req.Header.Set("Accept", "text/plain;version=0.0.4, text/plain;q=0.8, */*;q=0.1")
	if s.authorize != nil {
		s.authorize(req.Header)
	}
	out.at = s.since()
	if s.asked != nil {
		s.asked()
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // the address stands in the finding already
		}
		return err
	}
	defer resp.Body.Close()
	begun := time.Now()
	out.at = s.since()
	out.status = resp.StatusCode
	out.started, _ = strconv.ParseFloat(resp.Header.Get("Process-Start-Time-Unix"), 64)
	out.whole = exposition.Whole(resp)

	out.body, err = s.read(resp.Body)
	out.processing += time.Since(begun)
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case resp.StatusCode == http.StatusNotFound:
		return errSwitchedOff
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// read is io.ReadAll with a bound, into a buffer that is used again.
func (s *scraper) read(r io.Reader) ([]byte, error) {
	buf := s.buffer[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		s.buffer = buf
		switch {
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		case len(buf) > exposition.MaxBody:
			s.buffer = nil // not worth keeping
			return nil, fmt.Errorf("it is larger than %d MiB", exposition.MaxBody>>20)
		}
	}
}
