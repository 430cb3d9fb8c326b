package pack

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// A column has the values of all trials in their order, in one of several ways.
type column struct {
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"`
	Doc   string `json:"doc"`
	Core  bool   `json:"core,omitempty"`
	Given bool   `json:"given,omitempty"` // known without a measurement

	// Same is the place of an earlier column with the same values, from 1.
	Same int `json:"same,omitempty"`
	// Values are the different values, of which the block has for each trial the place, in two
	// bytes; absent if there is none.
	Values []any `json:"values,omitempty"`
	// Texts are the values themselves, without a block.
	Texts []string `json:"texts,omitempty"`
	// Width is that of the numbers of the block in bytes, as planes has them; NaN if there is none.
	Width int `json:"width,omitempty"`

	numbers []float64 // of a column of numbers
	texts   []string  // of another; "" if there is none
}

// maxValues is how many different values are told by their place.
const maxValues = 1024

// none is the place of a value that there is not.
const none = math.MaxUint16

// columnsOf returns the columns of a run that have a value, and their blocks.
func columnsOf(run *report.Run) (all []*column, blocks []byte) {
	byName := map[string]*column{}
	for _, c := range run.Resolved.Columns {
		byName[c.Name] = &column{Name: c.Name, Unit: c.Unit, Doc: c.Doc, Core: c.Tier == result.Core, Given: c.Given}
	}
	at := 0
	skip := func() {
		for at < len(run.Trials) && run.Trials[at].Outcome == nil {
			at++
		}
	}
	for row := range run.Whole() {
		skip()
		for name, v := range row {
			if c := byName[name]; c != nil && v != nil {
				c.set(at, len(run.Trials), v)
			}
		}
		at++
	}
	same := map[uint64][]int{}
	for _, c := range run.Resolved.Columns {
		c := byName[c.Name]
		switch {
		case c.numbers != nil:
			sum := digest(c.numbers)
			if i := slices.IndexFunc(same[sum], func(i int) bool { return equal(all[i].numbers, c.numbers) }); i >= 0 {
				c.Same = same[sum][i] + 1
			} else {
				same[sum] = append(same[sum], len(all))
				blocks = append(blocks, c.block()...)
			}
		case c.texts != nil:
			blocks = append(blocks, c.block()...)
		default:
			continue
		}
		all = append(all, c)
	}
	return all, blocks
}

// set sets the value of a trial of n.
func (c *column) set(at, n int, v any) {
	switch v := v.(type) {
	case int64:
		c.number(at, n, float64(v))
	case float64:
		c.number(at, n, shown(v))
	case string:
		c.text(at, n, short(v))
	case bool:
		c.text(at, n, strconv.FormatBool(v))
	case time.Time:
		c.text(at, n, v.UTC().Format(time.RFC3339))
	}
}

func (c *column) number(at, n int, v float64) {
	if c.numbers == nil {
		c.numbers = make([]float64, n)
		for i := range c.numbers {
			c.numbers[i] = math.NaN()
		}
	}
	c.numbers[at] = v
}

func (c *column) text(at, n int, v string) {
	if c.texts == nil {
		c.texts = make([]string, n)
	}
	c.texts[at] = v
}

// block returns the values in the way that takes the fewest bytes, of which the column then
// says how it was.
func (c *column) block() []byte {
	if c.texts != nil {
		places, values := placed(c.texts, func(v string) bool { return v == "" })
		if c.Values = values; values == nil {
			c.Texts = c.texts
		}
		return places
	}
	places, values := placed(c.numbers, math.IsNaN)
	if c.Values = values; values != nil {
		return places
	}
	c.Width = width(c.numbers)
	return planes(c.numbers, c.Width)
}

// width returns how many bytes a number takes: 2 or 3 if all are decimals that fit, else 4 or 8.
func width(values []float64) int {
	most := 2
	for _, v := range values {
		for ; most < 4; most++ {
			if _, ok := decimal(v, most); ok {
				break
			}
		}
		if most == 4 && !math.IsNaN(v) && shown(float64(float32(v))) != v {
			return 8
		}
	}
	return most
}

// powers are those of ten that a decimal is divided by: the last three bits of its code.
var powers = [8]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7}

// decimal returns the code of a number in some bytes: an integer of all bits but the last three,
// and the power of ten that it is divided by. All bits set are NaN.
func decimal(v float64, width int) (code uint32, ok bool) {
	none := uint32(1)<<(8*width) - 1
	if math.IsNaN(v) {
		return none, true
	}
	for e, by := range powers {
		m := math.Round(v * by)
		if m < 0 || m >= float64(none>>3) {
			return 0, false
		}
		if m/by == v {
			return uint32(m)<<3 | uint32(e), true
		}
	}
	return 0, false
}

// placed returns the different values and the place of each; nil if they are too many.
func placed[T comparable](all []T, missing func(T) bool) (block []byte, values []any) {
	known := map[T]int{}
	places := make([]byte, 2*len(all))
	for i, v := range all {
		place := none
		if !missing(v) {
			var ok bool
			if place, ok = known[v]; !ok {
				if len(values) == maxValues {
					return nil, nil
				}
				place = len(values)
				known[v], values = place, append(values, v)
			}
		}
		places[i], places[len(all)+i] = byte(place), byte(place>>8)
	}
	return places, values
}

// planes returns numbers of a width: the first byte of each, then the second of each, ...,
// least significant first, which compresses better than one number after the other. Those of
// 2 and 3 bytes are decimals, those of 4 and 8 are floats.
func planes(values []float64, width int) []byte {
	block := make([]byte, width*len(values))
	var b [8]byte
	for i, v := range values {
		if width < 4 {
			code, _ := decimal(v, width)
			binary.LittleEndian.PutUint32(b[:], code)
		} else if width == 4 {
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(float32(v)))
		} else {
			binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
		}
		for k := range width {
			block[k*len(values)+i] = b[k]
		}
	}
	return block
}

// shown keeps the digits that people are shown: three, or all before the point.
func shown(v float64) float64 {
	size := math.Abs(v)
	switch {
	case v == 0 || math.IsNaN(v):
		return v
	case math.IsInf(v, 0):
		return math.NaN()
	case size >= 100:
		return math.Round(v)
	}
	var text [32]byte
	v, _ = strconv.ParseFloat(string(strconv.AppendFloat(text[:0], v, 'g', 3, 64)), 64)
	return v
}

// digest returns a number that equal values have.
func digest(values []float64) uint64 {
	sum := uint64(14695981039346656037) // FNV-1a over whole values
	for _, v := range values {
		sum = (sum ^ math.Float64bits(v)) * 1099511628211
	}
	return sum
}

func equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}
