package effect

import (
	"bytes"
	"path/filepath"
	"slices"
	"sync"
)

// A Log is what was done to files, in order. Its zero value is empty. Several
// Effects may share one, as several processes share a disk.
type Log struct {
	mu     sync.Mutex
	ops    []Op
	inodes uint64
}

// An OpKind says what an [Op] did.
type OpKind string

// The kinds of operations on files.
const (
	OpOpen     OpKind = "open"     // Path became or was a file, from now on called Inode; Empty: its content is gone
	OpWrite    OpKind = "write"    // Data at Offset of Inode
	OpTruncate OpKind = "truncate" // Inode to the size Offset
	OpSync     OpKind = "sync"     // Inode
	OpMkdir    OpKind = "mkdir"    // Path
	OpRename   OpKind = "rename"   // Path to To
	OpRemove   OpKind = "remove"   // Path and all below it
	OpSyncDir  OpKind = "syncdir"  // Path
)

// An Op is one operation that succeeded. Paths are absolute and clean.
type Op struct {
	Kind   OpKind
	Path   string
	To     string
	Inode  uint64
	Offset int64
	Data   []byte
	Empty  bool
}

// Ops returns the operations so far.
func (l *Log) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.ops)
}

// record keeps an operation that succeeded. It returns the number of the file that was opened.
func (e *Effects) record(op Op) uint64 {
	if e == nil || e.log == nil {
		return 0
	}
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if op.Kind == OpOpen {
		e.log.inodes++
		op.Inode = e.log.inodes
	}
	op.Path, op.To, op.Data = absolute(op.Path), absolute(op.To), bytes.Clone(op.Data)
	e.log.ops = append(e.log.ops, op)
	return op.Inode
}

func absolute(path string) string {
	if path == "" {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path) // no working directory: nothing can be relative to it
	}
	return abs
}
