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

func (e *Effects) record(f func(*Log)) {
	if e == nil || e.log == nil {
		return
	}
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	f(e.log)
}

func (l *Log) open(path string, empty bool) uint64 {
	l.inodes++
	l.ops = append(l.ops, Op{Kind: OpOpen, Path: absolute(path), Inode: l.inodes, Empty: empty})
	return l.inodes
}

func (l *Log) write(inode uint64, offset int64, b []byte) {
	l.ops = append(l.ops, Op{Kind: OpWrite, Inode: inode, Offset: offset, Data: bytes.Clone(b)})
}

func (l *Log) truncate(inode uint64, size int64) {
	l.ops = append(l.ops, Op{Kind: OpTruncate, Inode: inode, Offset: size})
}

func (l *Log) sync(inode uint64) { l.ops = append(l.ops, Op{Kind: OpSync, Inode: inode}) }

func (l *Log) mkdir(path string) {
	l.ops = append(l.ops, Op{Kind: OpMkdir, Path: absolute(path)})
}

func (l *Log) rename(from, to string) {
	l.ops = append(l.ops, Op{Kind: OpRename, Path: absolute(from), To: absolute(to)})
}

func (l *Log) removeAll(path string) {
	l.ops = append(l.ops, Op{Kind: OpRemove, Path: absolute(path)})
}

func (l *Log) syncDir(path string) {
	l.ops = append(l.ops, Op{Kind: OpSyncDir, Path: absolute(path)})
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path) // no working directory: nothing can be relative to it
	}
	return abs
}
