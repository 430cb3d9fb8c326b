package pods

import "time"

// Pending sets how long a pod may wait.
func (b *Backend) Pending(d time.Duration) { b.config.Pending = d }

// At has the pods' files below a folder of this machine, and quick pauses: nothing is
// late there.
func (b *Backend) At(dir string) *Backend {
	b.files = dir
	b.every.again, b.every.connect, b.every.quota, b.every.leave = 50*time.Millisecond, time.Second, 50*time.Millisecond, 50*time.Millisecond
	b.Late = 500 * time.Millisecond
	return b
}
