package observe

import (
	"errors"
	"io"
	"sync"

	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A Sink takes what is seen during one attempt, by collectors and others. Its
// methods may be called by several goroutines.
type Sink struct {
	mu      sync.Mutex
	files   *rundir.Attempt
	mask    secret.Mask
	samples []result.Sample
	notes   []result.Finding
	closed  bool
}

// NewSink takes files in where those of the attempt are, and finds secrets in notes.
// Without files it keeps none.
func NewSink(files *rundir.Attempt, mask secret.Mask) *Sink { return &Sink{files: files, mask: mask} }

// Sample implements [collectors.Sink].
func (s *Sink) Sample(x result.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.samples = append(s.samples, x)
	}
}

// Artifact implements [collectors.Sink].
func (s *Sink) Artifact(name string, r io.Reader) (err error) {
	if s.files == nil {
		_, err = io.Copy(io.Discard, r)
		return err
	}
	w, err := s.files.Create(name)
	if err != nil {
		return err
	}
	// Also where r panics: a file that is still open forbids the commit.
	defer func() { err = errors.Join(err, w.Close()) }()
	_, err = io.Copy(w, r)
	return err
}

// Note implements [collectors.Sink].
func (s *Sink) Note(f result.Finding) {
	f.Text = s.mask.Text(f.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.notes {
		if have.Code == f.Code {
			return
		}
	}
	s.notes = append(s.notes, f)
}

// Samples returns those that were taken.
func (s *Sink) Samples() []result.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.samples
}

// Notes returns those that were taken: of each code the first.
func (s *Sink) Notes() []result.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes
}

// close takes no more samples: the row is made.
func (s *Sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
