// Package bounded keeps a bounded part of what a program prints.
package bounded

import "bytes"

// A Buffer keeps the first Max bytes that are written to it. It hides the rest of
// bytes.Buffer, whose ReadFrom knows no bound. It is not safe for concurrent use.
type Buffer struct {
	Max int
	// Full is called at each write for which there is no room, after what fits is
	// kept. Its error is the writer's; without one, and without Full, the rest is
	// dropped.
	Full func() error

	kept bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	n := min(len(p), b.Max-b.kept.Len())
	b.kept.Write(p[:n])
	if n < len(p) && b.Full != nil {
		if err := b.Full(); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// Bytes returns what was kept, until the next Write.
func (b *Buffer) Bytes() []byte { return b.kept.Bytes() }

// String returns what was kept.
func (b *Buffer) String() string { return b.kept.String() }
