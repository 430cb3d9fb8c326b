// Package host is a place where a role runs, as seen from here: an address to
// dial, commands to run, a log to read. Each backend has its own.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// ErrNotSupported is returned by a host that cannot do what was asked, for
// example run a command beside an endpoint that belongs to somebody else.
var ErrNotSupported = errors.New("not supported by this host")

// MaxOutput is how many bytes of a command's stdout a host returns.
const MaxOutput = 4 << 20

// ErrTooLong ends a command that says more than anybody asked for.
var ErrTooLong = fmt.Errorf("more than %d MiB of output", MaxOutput>>20)

// Path says how bytes travel between here and a host. It stands in every row,
// because a proxy adds latency of its own.
type Path string

// The network paths.
const (
	Direct Path = "direct"
	Tunnel Path = "tunnel"
	Proxy  Path = "proxy"
)

// A Host is one running role. All methods may be called concurrently and after
// the role has ended.
type Host interface {
	// URL is the base URL of the role's HTTP server, without a trailing slash.
	URL() string
	// Dial opens a connection to the role's own network; addr is host:port as
	// seen from the role ("127.0.0.1:8000"). The context bounds the dial, not
	// the connection's life.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// Exec runs argv where the role runs and returns its stdout, at most [MaxOutput]:
	// ErrTooLong comes beside that much of a longer one. The context bounds the
	// command's life. ErrNotSupported if there is no such place.
	Exec(ctx context.Context, argv ...string) ([]byte, error)
	// Logs opens the role's log (stdout and stderr in order) from its start.
	// ErrNotSupported if there is none.
	Logs(ctx context.Context) (io.ReadCloser, error)
	// Path is how requests reach the role.
	Path() Path
}

// A Porter is a Host whose role listens on further ports than that of its URL;
// found by type assertion.
type Porter interface {
	// Addr is host:port of the port of that name, as seen from the role; ""
	// if it has none.
	Addr(port string) string
}

// A Processor is a Host whose server is a local process tree; found by type
// assertion.
type Processor interface {
	// PIDs returns the process ids of the tree at this moment, the server's
	// first process first. Empty after it has ended.
	PIDs() []int
}

// OpenLog opens the file of a role's log; ErrNotSupported for "".
func OpenLog(path string) (io.ReadCloser, error) {
	if path == "" {
		return nil, ErrNotSupported
	}
	return os.Open(path)
}
