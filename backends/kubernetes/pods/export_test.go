package pods

import "time"

// At has the pods' files below a folder of this machine, and quick pauses: nothing is
// late there.
func (b *Backend) At(dir string) *Backend {
	b.files = dir
	b.every.again, b.every.connect = 50*time.Millisecond, time.Second
	b.Late = 500 * time.Millisecond
	return b
}
