package attempt

import (
	"cmp"
	"fmt"
	"iter"
	"unsafe"

	"sweep.dev/sweep/result"
)

const (
	// recordPage is how many requests a page holds: 0.4 MB.
	recordPage = 1024
	// maxRecords bounds the memory of a trial's records with their chunks, in
	// bytes: 5 million requests without a chunk, or 2 million of 64 chunks.
	maxRecords = 2 << 30
)

// records are the requests of a trial as they end. They lie in pages of a fixed
// size, because a slice that grows copies all that it holds: at a million
// requests 0.4 GB, while the load is measured.
type records struct {
	pages    [][]result.Request
	measured int   // of them
	bytes    int64 // that all take, with their chunks and texts
	limit    int64 // of bytes; 0 is maxRecords
}

// add keeps one more request. full says how much there is once no more may be
// taken, and is "" until then.
func (s *records) add(r result.Request) (full string) {
	last := len(s.pages) - 1
	if last < 0 || len(s.pages[last]) == recordPage {
		s.pages = append(s.pages, make([]result.Request, 0, recordPage))
		last++
	}
	s.pages[last] = append(s.pages[last], r)
	if r.Measured() {
		s.measured++
	}
	s.bytes += int64(unsafe.Sizeof(r)) + 4*int64(cap(r.ChunkUS)+cap(r.ChunkTokens)) + int64(len(r.Error)+len(r.Answer)+len(r.FinishReason))
	limit := cmp.Or(s.limit, maxRecords)
	if s.bytes < limit {
		return ""
	}
	return fmt.Sprintf("the records of %d requests take %d MiB (bound %d MiB): the load was ended; shorten it, or ask for fewer tokens",
		s.measured, s.bytes>>20, limit>>20)
}

// all returns the requests in the order of their ends.
func (s *records) all() iter.Seq[*result.Request] {
	return func(yield func(*result.Request) bool) {
		for _, p := range s.pages {
			for i := range p {
				if !yield(&p[i]) {
					return
				}
			}
		}
	}
}

// take returns all requests in the order of their ends, and forgets them. Each
// page is given back as it is copied.
func (s *records) take() []result.Request {
	if len(s.pages) == 0 {
		return nil
	}
	n := (len(s.pages)-1)*recordPage + len(s.pages[len(s.pages)-1])
	all := make([]result.Request, 0, n)
	for i, p := range s.pages {
		all = append(all, p...)
		s.pages[i] = nil
	}
	*s = records{limit: s.limit}
	return all
}
