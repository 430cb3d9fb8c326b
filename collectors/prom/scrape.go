package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	seq         int
	at          time.Duration          // when the answer began, on the trial's clock
	status      int                    // 0 where there was no answer
	body        []byte                 // valid until the next scrape
	whole       bool                   // the transport vouches for the body's end
	started     float64                // when the server's process started, 0 where it does not say
	exposition  *exposition.Exposition // nil beside an error
	processing  time.Duration          // what reading the answer cost us
	err         error
	contentType string
}

// A scraper fetches bodies from one target, one at a time.
type scraper struct {
	client *http.Client
	url    string
	trial  collectors.Trial
	seq    int
	buffer []byte

	// A dial may outlive the request that asked for it. close ends and awaits
	// those.
	endDials context.CancelFunc
	dials    sync.WaitGroup
}

func newScraper(t collectors.Trial, path string) (*scraper, error) {
	base, err := url.Parse(t.Targets[0].Host.URL())
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	life, endDials := context.WithCancel(context.Background())
	s := &scraper{
		url:      strings.TrimSuffix(base.String(), "/") + path,
		trial:    t,
		endDials: endDials,
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			s.dials.Add(1)
			defer s.dials.Done()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(life, cancel)()
			return t.Targets[0].Host.Dial(ctx, network, addr)
		},
		// Only one connection is ever needed, and no proxy stands between.
		MaxConnsPerHost:        1,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        time.Minute,
	}
	s.client = &http.Client{Transport: transport, CheckRedirect: sameHost}
	return s, nil
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
	s.endDials()
	s.dials.Wait()
	s.client.CloseIdleConnections()
}

// scrape takes one look. It takes limit at most, and keeps 32 MiB at most.
func (s *scraper) scrape(ctx context.Context, limit time.Duration) *scrape {
	out := &scrape{seq: s.seq}
	s.seq++
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no complete answer within %v", limit))
	defer cancel()
	if err := s.fetch(ctx, out); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		out.err = err
		out.exposition = nil
	}
	return out
}

func (s *scraper) fetch(ctx context.Context, out *scrape) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	// Asked for OpenMetrics, some servers answer in it; the plain format is
	// what every engine and this reader know best.
	req.Header.Set("Accept", "text/plain;version=0.0.4, text/plain;q=0.8, */*;q=0.1")
	if s.trial.Authorize != nil {
		s.trial.Authorize(req.Header)
	}
	out.at = s.trial.Anchor.Since()
	resp, err := s.client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // the address stands in the finding already
		}
		return err
	}
	defer resp.Body.Close()
	begun := time.Now()
	out.at = s.trial.Anchor.Since()
	out.status = resp.StatusCode
	out.contentType = resp.Header.Get("Content-Type")
	out.started, _ = strconv.ParseFloat(resp.Header.Get("Process-Start-Time-Unix"), 64)
	// A body that only the end of the connection ends may have lost its tail
	// without anybody noticing.
	out.whole = resp.ContentLength >= 0 || resp.Uncompressed || len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1

	out.body, err = s.read(resp.Body)
	defer func() { out.processing = time.Since(begun) }()
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errors.New("the server has no metrics at this path: they may be switched off (status 404)")
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	out.exposition, err = exposition.Parse(out.body, out.whole)
	return err
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
