// Package effecttest replays recorded file operations up to a loss of power.
package effecttest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/effect"
)

// sector is the unit in which a disk writes all or nothing, in bytes.
const sector = 512

// PowerLoss writes to the empty directory dst what a disk may hold of base when
// the power goes after ops, as [Disk.Lost] has it. All changes must be below base,
// which was empty before them.
func PowerLoss(ops []effect.Op, base, dst string, keep int, seed uint64) error {
	d := NewDisk(base)
	for i, op := range ops {
		if err := d.Apply(op); err != nil {
			return fmt.Errorf("operation %d (%s %s): %w", i, op.Kind, op.Path, err)
		}
	}
	return d.Lost(keep, seed).Write(dst)
}

// A Disk is a folder that was empty, operation by operation.
type Disk struct {
	base   string
	root   *node
	inodes map[uint64]*node
}

// NewDisk makes the disk of a folder.
func NewDisk(base string) *Disk {
	return &Disk{base: base, root: newDir(), inodes: map[uint64]*node{}}
}

// Lost returns what the disk may hold when the power goes now. What was fsynced is
// there: a file's bytes after its Sync, an entry of a folder after SyncDir of the folder.
// Of the rest keep percent are there, chosen by seed: entries one by one (a rename is
// one), data by sectors. With 100 percent that is what a kill of the process leaves.
//
// It is stricter than real file systems: a file's Sync does not make its name
// durable, and unsynced changes survive in any combination.
func (d *Disk) Lost(keep int, seed uint64) Tree {
	t := Tree{}
	c := crash{keep: keep, rng: rand.New(rand.NewPCG(seed, 0))}
	c.add(t, d.root, "")
	return t
}

// A Tree is a folder: the content of each file by its path, and "" of each folder, whose
// path ends with a slash.
type Tree map[string]string

// Write makes the tree in the directory dst, which is empty or does not exist.
func (t Tree) Write(dst string) error {
	if err := os.MkdirAll(dst, 0o700); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(t)) {
		at, err := filepath.Join(dst, filepath.FromSlash(path)), error(nil)
		if strings.HasSuffix(path, "/") {
			err = os.Mkdir(at, 0o700)
		} else {
			err = os.WriteFile(at, []byte(t[path]), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Sum returns a digest that is equal for equal trees.
func (t Tree) Sum() [sha256.Size]byte {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(h, "%q %d\n%s", path, len(t[path]), t[path])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// A node is a file, or a folder where entries is not nil.
type node struct {
	entries map[string]*node // as the program sees it
	durable map[string]*node
	renames []change // of entries since the last SyncDir

	synced []byte
	writes []effect.Op // since the last Sync
}

func newDir() *node { return &node{entries: map[string]*node{}, durable: map[string]*node{}} }

// A change takes the entry from away and makes the entry to; "" is neither.
type change struct {
	from, to string
	node     *node
}

func (c change) apply(m map[string]*node) {
	if c.from != "" {
		delete(m, c.from)
	}
	if c.to != "" {
		m[c.to] = c.node
	}
}

func (n *node) change(c change) {
	c.apply(n.entries)
	n.renames = append(n.renames, c)
}

// Apply does one operation.
func (d *Disk) Apply(op effect.Op) error {
	switch op.Kind {
	case effect.OpOpen:
		return d.open(op)
	case effect.OpWrite, effect.OpTruncate:
		n := d.inodes[op.Inode]
		n.writes = append(n.writes, op)
	case effect.OpSync:
		n := d.inodes[op.Inode]
		for _, w := range n.writes {
			n.synced = store(n.synced, w)
		}
		n.writes = nil
	case effect.OpMkdir:
		dir, name, err := d.parent(op.Path)
		if err != nil {
			return err
		}
		dir.change(change{to: name, node: newDir()})
	case effect.OpRename:
		return d.rename(op)
	case effect.OpRemove:
		dir, name, err := d.parent(op.Path)
		if err != nil {
			return nil // there was nothing to remove, nor a folder for it
		}
		if n := dir.entries[name]; n != nil {
			empty(n)
			dir.change(change{from: name})
		}
	case effect.OpSyncDir:
		if !d.below(op.Path) {
			return nil // what is above is durable
		}
		n, err := d.find(op.Path)
		if err != nil {
			return err
		}
		n.durable, n.renames = maps.Clone(n.entries), nil
	}
	return nil
}

// empty removes what is below a folder, entry by entry, as RemoveAll does.
func empty(n *node) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		empty(n.entries[name])
		n.change(change{from: name})
	}
}

func (d *Disk) open(op effect.Op) error {
	dir, name, err := d.parent(op.Path)
	if err != nil {
		return err
	}
	n := dir.entries[name]
	if n == nil {
		n = &node{}
		dir.change(change{to: name, node: n})
	}
	if op.Empty {
		n.writes = append(n.writes, effect.Op{Kind: effect.OpTruncate})
	}
	d.inodes[op.Inode] = n
	return nil
}

func (d *Disk) rename(op effect.Op) error {
	dir, from, err := d.parent(op.Path)
	if err != nil {
		return err
	}
	other, to, err := d.parent(op.To)
	if err != nil {
		return err
	}
	if dir != other {
		return errors.New("a rename from one folder to another is not modelled")
	}
	n := dir.entries[from]
	if n == nil {
		return errors.New("nothing to rename")
	}
	dir.change(change{from: from, to: to, node: n})
	return nil
}

func (d *Disk) parent(path string) (*node, string, error) {
	n, err := d.find(filepath.Dir(path))
	return n, filepath.Base(path), err
}

func (d *Disk) below(path string) bool {
	rel, err := filepath.Rel(d.base, path)
	return err == nil && filepath.IsLocal(rel)
}

func (d *Disk) find(path string) (*node, error) {
	rel, err := filepath.Rel(d.base, path)
	if err != nil {
		return nil, err
	}
	n := d.root
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if part == "." {
			continue
		}
		if n = n.entries[part]; n == nil || n.entries == nil {
			return nil, fmt.Errorf("no folder %s", path)
		}
	}
	return n, nil
}

// store does one write or truncation.
func store(b []byte, op effect.Op) []byte {
	end := op.Offset + int64(len(op.Data))
	if op.Kind == effect.OpTruncate && int64(len(b)) > end {
		return bytes.Clone(b[:end])
	}
	if grow := end - int64(len(b)); grow > 0 {
		b = append(bytes.Clone(b), make([]byte, grow)...)
	} else {
		b = bytes.Clone(b)
	}
	copy(b[op.Offset:], op.Data)
	return b
}

// A crash chooses what survives.
type crash struct {
	keep int
	rng  *rand.Rand
}

func (c *crash) kept() bool { return c.rng.IntN(100) < c.keep }

func (c *crash) add(t Tree, n *node, path string) {
	if n.entries == nil {
		t[path] = string(c.data(n))
		return
	}
	if path != "" {
		path += "/"
		t[path] = ""
	}
	entries := maps.Clone(n.durable)
	for _, ch := range n.renames {
		if c.kept() {
			ch.apply(entries)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		c.add(t, entries[name], path+name)
	}
}

func (c *crash) data(n *node) []byte {
	b := n.synced
	for _, op := range n.writes {
		if op.Kind == effect.OpTruncate {
			if c.kept() {
				b = store(b, op)
			}
			continue
		}
		for start := 0; start < len(op.Data); start += sector {
			part := op
			part.Offset += int64(start)
			part.Data = op.Data[start:min(start+sector, len(op.Data))]
			if c.kept() {
				b = store(b, part)
			}
		}
	}
	return b
}
