// Package fieldtag reads the struct tags of configuration structs. The strict decoder
// checks files against them, and the JSON Schema and the documentation are generated
// from them, so the three cannot disagree.
//
//	Rate float64 `yaml:"rate,omitempty" doc:"what it means" unit:"requests/s" gt:"0" max:"1000" default:"8"`
//
// The tags are: doc (one sentence), default (as a person would write it), unit,
// min and max (inclusive bounds), gt and lt (exclusive ones), enum (values
// separated by commas), pattern (a regular expression that a text must match),
// blank ("allowed" if a text may be only spaces) and example (a value as in a plan, in
// YAML). On a slice or a map the bounds, enum and pattern are of the elements.
package fieldtag

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Field is one key of a mapping.
type Field struct {
	Key     string // as in the file
	Index   int    // of the field in its struct
	Type    reflect.Type
	Doc     string
	Default string
	Unit    string // "s", "tokens", "ratio", ...: tokens may be written 4k, ratios 80%
	Example string
	Pattern string
	Blank   bool // a text may be nothing but spaces
	Scalar  bool // a number, true or false stands for the text that it is written as
	Enum    []string
	Word    string   // may stand in place of a whole number; it is Auto
	Min     *float64 // at least
	Max     *float64 // at most
	Above   *float64 // more than
	Below   *float64 // less than
}

// Of lists the fields of a struct that a file may set, in their order. Fields
// without a yaml or json tag go by their name in lower case, as YAML libraries have
// it; those tagged "-" and unexported ones are left out. It panics on a bound
// that is no number: the tag is part of the program. The tags of a type are read once:
// callers share the list and must not change it.
func Of(t reflect.Type) []Field {
	if fields, ok := read.Load(t); ok {
		return fields.([]Field)
	}
	fields, _ := read.LoadOrStore(t, slices.Clip(readTags(t)))
	return fields.([]Field)
}

// read has the fields of each struct whose tags were read.
var read sync.Map //nolint:gochecknoglobals // a cache of what the types say, which never changes

func readTags(t reflect.Type) []Field {
	var fields []Field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		key, _, _ := strings.Cut(cmp.Or(f.Tag.Get("yaml"), f.Tag.Get("json")), ",")
		if key == "-" {
			continue
		}
		if key == "" {
			key = strings.ToLower(f.Name)
		}
		out := Field{
			Key: key, Index: i, Type: f.Type,
			Doc: f.Tag.Get("doc"), Default: f.Tag.Get("default"), Unit: f.Tag.Get("unit"),
			Example: f.Tag.Get("example"), Pattern: f.Tag.Get("pattern"), Blank: f.Tag.Get("blank") == "allowed", Scalar: f.Tag.Get("scalar") == "allowed",
			Word: f.Tag.Get("word"), Min: bound(f, "min"), Max: bound(f, "max"), Above: bound(f, "gt"), Below: bound(f, "lt"),
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			out.Enum = strings.Split(enum, ",")
		}
		fields = append(fields, out)
	}
	return fields
}

// Auto is the value of a whole number for which a file has the word of its field.
const Auto = -1

// Words returns what a file may write in place of a list of type t, one word for a
// whole list: those of its method Words, nil without one.
func Words(t reflect.Type) []string {
	if w, ok := reflect.TypeAssert[interface{ Words() []string }](reflect.Zero(t)); ok {
		return w.Words()
	}
	return nil
}

// Short returns the key that a file may set by its value alone, in place of a mapping
// of type t: that of its method Short, "" without one.
func Short(t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	if s, ok := reflect.TypeAssert[interface{ Short() string }](reflect.Zero(t)); ok {
		return s.Short()
	}
	return ""
}

func bound(f reflect.StructField, name string) *float64 {
	text, ok := f.Tag.Lookup(name)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("fieldtag: %s of field %s: %v", name, f.Name, err))
	}
	return &v
}

// Outside says in words which bound v breaks: "" if it breaks none.
func (f Field) Outside(v float64) string {
	switch {
	case f.Min != nil && v < *f.Min:
		return "at least " + strconv.FormatFloat(*f.Min, 'f', -1, 64)
	case f.Max != nil && v > *f.Max:
		return "at most " + strconv.FormatFloat(*f.Max, 'f', -1, 64)
	case f.Above != nil && v <= *f.Above:
		return "more than " + strconv.FormatFloat(*f.Above, 'f', -1, 64)
	case f.Below != nil && v >= *f.Below:
		return "less than " + strconv.FormatFloat(*f.Below, 'f', -1, 64)
	}
	return ""
}
