package result

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"time"
)

// Packed holds rows in few bytes: about ten for each value. The zero value is ready to
// use. What is null in a row is missing in the one that comes back.
type Packed struct {
	rows  [][]byte
	names packedTexts // of columns
	texts packedTexts
}

// packedTexts has each of some texts once, as the value that all rows share.
type packedTexts struct {
	all []any
	at  map[string]uint64
}

func (t *packedTexts) place(text string) uint64 {
	at, ok := t.at[text]
	if !ok {
		if t.at == nil {
			t.at = map[string]uint64{}
		}
		at = uint64(len(t.all))
		t.at[text], t.all = at, append(t.all, text)
	}
	return at
}

// The kinds of packed values.
const (
	packedText = iota
	packedInt
	packedFloat
	packedTime
	packedTrue
	packedFalse
	packedKinds
)

// Add packs a row behind those that are there.
func (p *Packed) Add(r Row) {
	b := make([]byte, 0, 10*len(r))
	for name, v := range r {
		head := func(kind uint64) { b = binary.AppendUvarint(b, p.names.place(name)*packedKinds+kind) }
		switch v := v.(type) {
		case string:
			head(packedText)
			b = binary.AppendUvarint(b, p.texts.place(v))
		case int64:
			head(packedInt)
			b = binary.AppendVarint(b, v)
		case float64:
			head(packedFloat)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case time.Time:
			head(packedTime)
			b = binary.AppendVarint(b, v.Unix())
			b = binary.AppendUvarint(b, uint64(v.Nanosecond()))
		case bool:
			if v {
				head(packedTrue)
			} else {
				head(packedFalse)
			}
		}
	}
	p.rows = append(p.rows, slices.Clip(b))
}

// All yields the rows in the order in which they were added, each one a row of its own.
func (p *Packed) All() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for _, b := range p.rows {
			if !yield(p.row(b)) {
				return
			}
		}
	}
}

func (p *Packed) row(b []byte) Row {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	signed := func() int64 {
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	r := make(Row, len(b)/10+1)
	for len(b) > 0 {
		head := next()
		name, _ := p.names.all[head/packedKinds].(string)
		switch head % packedKinds {
		case packedText:
			r[name] = p.texts.all[next()]
		case packedInt:
			r[name] = signed()
		case packedFloat:
			r[name] = math.Float64frombits(binary.LittleEndian.Uint64(b))
			b = b[8:]
		case packedTime:
			seconds := signed()
			r[name] = time.Unix(seconds, int64(next())).UTC()
		case packedTrue, packedFalse:
			r[name] = head%packedKinds == packedTrue
		}
	}
	return r
}
