package core

import "slices"

// A cache is a pool of blocks of [BlockSize] tokens. A block is referred to by
// the sequences that use it; one without a reference is free, but keeps its
// content, and can be found by its hash until it is taken for something else.
// The free list is in order of last use, so that the oldest goes first. Blocks that were
// never used are older than all of it, and need no list: a cache of many is made at once.
//
//	free list:  head <-> oldest ... youngest <-> head       (a ring by index)
type cache struct {
	refs []int32
	hash []uint64 // 0: no content that could be found
	// The ring's links; index len(refs) is its head.
	next, prev []int32
	fresh      int32 // the first block that was never used
	free       int
	byHash     map[uint64]int32 // nil: no prefix cache
}

func newCache(blocks int, prefix bool) *cache {
	c := &cache{
		refs: make([]int32, blocks), hash: make([]uint64, blocks),
		next: make([]int32, blocks+1), prev: make([]int32, blocks+1), free: blocks,
	}
	if prefix {
		c.byHash = map[uint64]int32{}
	}
	head := int32(blocks)
	c.next[head], c.prev[head] = head, head
	return c
}

// push makes b the youngest free block.
func (c *cache) push(b int32) {
	head := int32(len(c.refs))
	last := c.prev[head]
	c.next[last], c.prev[b], c.next[b], c.prev[head] = b, last, head, b
	c.free++
}

func (c *cache) unlink(b int32) {
	c.next[c.prev[b]], c.prev[c.next[b]] = c.next[b], c.prev[b]
	c.free--
}

// lookup returns the blocks that hold the longest known prefix of hashes, at
// most limit of them, without referring to them.
func (c *cache) lookup(hashes []uint64, limit int) []int32 {
	var found []int32
	if c.byHash == nil {
		return nil
	}
	for _, h := range hashes[:min(limit, len(hashes))] {
		b, ok := c.byHash[h]
		if !ok {
			break
		}
		found = append(found, b)
	}
	return found
}

// idle returns how many of these blocks are free: referring to them takes them from
// the free list.
func (c *cache) idle(blocks []int32) int {
	n := 0
	for _, b := range blocks {
		if c.refs[b] == 0 {
			n++
		}
	}
	return n
}

// share refers to blocks that lookup found.
func (c *cache) share(blocks []int32) {
	for _, b := range blocks {
		if c.refs[b] == 0 {
			c.unlink(b)
		}
		c.refs[b]++
	}
}

// take appends n blocks to list, oldest first. The caller has looked at free.
func (c *cache) take(list []int32, n int) []int32 {
	head := int32(len(c.refs))
	for range n {
		b := c.fresh
		if b < head {
			c.fresh++
			c.free--
		} else {
			b = c.next[head]
			c.unlink(b)
			c.forget(b)
		}
		c.refs[b] = 1
		list = append(list, b)
	}
	return list
}

func (c *cache) forget(b int32) {
	if h := c.hash[b]; h != 0 {
		if c.byHash[h] == b {
			delete(c.byHash, h)
		}
		c.hash[b] = 0
	}
}

// name gives the block its hash once it is full. The first block with some
// content stays the one that is found.
func (c *cache) name(b int32, h uint64) {
	if c.byHash == nil || c.hash[b] != 0 {
		return
	}
	if _, ok := c.byHash[h]; !ok {
		c.byHash[h] = b
		c.hash[b] = h
	}
}

// release gives blocks up, the last one first: the end of a sequence is less
// likely to be wanted again than its start.
func (c *cache) release(blocks []int32) {
	for _, b := range slices.Backward(blocks) {
		if c.refs[b]--; c.refs[b] == 0 {
			c.push(b)
		}
	}
}

// reset forgets all content. It does nothing and returns false while any block
// is in use, as the real engine does.
func (c *cache) reset() bool {
	if c.free != len(c.refs) {
		return false
	}
	for b := range c.refs {
		c.forget(int32(b))
	}
	return true
}

// usage returns the share of blocks in use, 0 to 1.
func (c *cache) usage() float64 { return 1 - float64(c.free)/float64(len(c.refs)) }

// chain extends hashes to every full block of tokens. Each hash covers all
// tokens before it. (FNV-1a's mixing over the words; a collision is as unlikely
// as 64 bits make it, and would only make one simulated prefix hit.)
func chain(hashes []uint64, tokens []uint32) []uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	for i := len(hashes); (i+1)*BlockSize <= len(tokens); i++ {
		h := uint64(offset)
		if i > 0 {
			h = hashes[i-1]
		}
		for _, t := range tokens[i*BlockSize : (i+1)*BlockSize] {
			h = (h ^ uint64(t)) * prime
			h ^= h >> 29
		}
		hashes = append(hashes, max(h, 1)) // 0 means none
	}
	return hashes
}
