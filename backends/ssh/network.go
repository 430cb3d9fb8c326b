package ssh

import (
	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
)

var _ backends.Network = (*Backend)(nil)

// PlainTCP implements [backends.Network].
func (b *Backend) PlainTCP() bool { return b.c.Network == string(host.Direct) }
