package strict

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/syntax"
)

func (d *Decoder) scalar(n *syntax.Node, v reflect.Value, f fieldtag.Field, where string) {
	switch v.Kind() {
	case reflect.String:
		text, ok := d.text(n, f, where)
		if ok && d.allowed(n, text, f, where) {
			v.SetString(text)
		}
	case reflect.Bool:
		if n.Kind != syntax.Bool {
			diag := d.Report.Node(n, "type", "%s takes true or false, found %s", place(where), found(n))
			switch strings.ToLower(n.Text) {
			case "yes", "on":
				diag.Nearest = "true"
			case "no", "off":
				diag.Nearest = "false"
			}
			return
		}
		v.SetBool(strings.EqualFold(n.Text, "true"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if f.Word != "" && n.Kind == syntax.String && n.Text == f.Word {
			v.SetInt(fieldtag.Auto)
			return
		}
		i, ok := d.Int(n, f, where)
		if !ok {
			return
		}
		if v.OverflowInt(i) {
			d.Report.Node(n, "range", "%s: %s is too large", place(where), n.Text)
			return
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, err := strconv.ParseUint(n.Text, 10, v.Type().Bits())
		if n.Kind != syntax.Int || err != nil {
			d.Report.Node(n, "type", "%s takes a whole number that is not negative, found %s", place(where), found(n))
			return
		}
		if d.within(n, float64(u), f, where) {
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		if x, ok := d.Float(n, f, where); ok {
			v.SetFloat(x)
		}
	default:
		panic(fmt.Sprintf("strict: a configuration struct has a field of type %s at %s", v.Type(), where))
	}
}

// Text decodes a text in which variables are expanded.
func (d *Decoder) Text(n *syntax.Node, f fieldtag.Field, where string) (string, bool) {
	text, ok := d.text(n, f, where)
	return text, ok && d.allowed(n, text, f, where)
}

func (d *Decoder) text(n *syntax.Node, f fieldtag.Field, where string) (string, bool) {
	scalar := n.Kind == syntax.Int || n.Kind == syntax.Float || n.Kind == syntax.Bool
	if scalar && f.Scalar {
		return n.Text, true
	}
	if n.Kind != syntax.String {
		diag := d.Report.Node(n, "type", "%s takes text, found %s", place(where), found(n))
		if scalar {
			diag.Hint = fmt.Sprintf("write %q in quotes if that is what you mean", n.Text)
		}
		return "", false
	}
	if n.Text == "" || !f.Blank && strings.TrimSpace(n.Text) == "" {
		d.Report.Node(n, "value", "%s is empty", place(where))
		return "", false
	}
	if i := strings.IndexFunc(n.Text, control); i >= 0 {
		d.Report.Node(n, "value", "%s holds the control character %U", place(where), n.Text[i])
		return "", false
	}
	d.literal(n, where)
	if d.Env == nil {
		return n.Text, true
	}
	return d.Env.expand(d.Report, n, where, false)
}

func control(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }

func (d *Decoder) allowed(n *syntax.Node, text string, f fieldtag.Field, where string) bool {
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, text) {
		diag := d.Report.Node(n, "value", "%s cannot be %q", place(where), text)
		diag.Expected = OneOf(f.Enum)
		diag.Nearest = syntax.Nearest(text, f.Enum)
		return false
	}
	// Patterns are part of the program, as the fields are: few and short.
	if f.Pattern != "" && !regexp.MustCompile(f.Pattern).MatchString(text) {
		diag := d.Report.Node(n, "value", "%s cannot be %q", place(where), text)
		diag.Expected = "text like " + f.Example
		if f.Example == "" {
			diag.Expected = "text that matches " + f.Pattern
		}
		return false
	}
	return true
}

// Int decodes a whole number. Where f counts tokens it may be written 4k
// (4,000) or 4ki (4,096).
func (d *Decoder) Int(n *syntax.Node, f fieldtag.Field, where string) (int64, bool) {
	i, err := int64(0), errors.New("")
	switch {
	case n.Kind == syntax.Int:
		i, err = ParseInt(n.Text)
	case n.Kind == syntax.String && f.Unit == "tokens":
		i, err = ParseTokens(n.Text)
	}
	if err != nil {
		diag := d.Report.Node(n, "type", "%s takes a whole number, found %s", place(where), found(n))
		switch {
		case f.Unit == "tokens":
			diag.Expected = "a number of tokens, like 256, 4k (4,000) or 4ki (4,096)"
		case f.Unit != "":
			diag.Expected = "a number of " + f.Unit
		case f.Word != "":
			diag.Expected = "a whole number, or " + f.Word
		}
		variable(n, diag)
		d.several(n, diag, where)
		return 0, false
	}
	return i, d.within(n, float64(i), f, where)
}

// Float decodes a number. Where f is a ratio it may be written as a percentage.
func (d *Decoder) Float(n *syntax.Node, f fieldtag.Field, where string) (float64, bool) {
	x, err := 0.0, errors.New("")
	switch {
	case n.Kind == syntax.Int, n.Kind == syntax.Float:
		x, err = ParseFloat(n.Text)
	case n.Kind == syntax.String && f.Unit == "ratio":
		x, err = ParseRatio(n.Text)
	}
	if err != nil {
		diag := d.Report.Node(n, "type", "%s takes a number, found %s", place(where), found(n))
		if f.Unit == "ratio" {
			diag.Expected = "a share, like 0.8 or 80%"
		} else if f.Unit != "" {
			diag.Expected = "a number of " + f.Unit
		}
		variable(n, diag)
		d.several(n, diag, where)
		return 0, false
	}
	return x, d.within(n, x, f, where)
}

func (d *Decoder) within(n *syntax.Node, x float64, f fieldtag.Field, where string) bool {
	bound := f.Outside(x)
	if bound == "" {
		return true
	}
	diag := d.Report.Node(n, "range", "%s must be %s, found %s", place(where), bound, n.Text)
	if f.Unit != "" && f.Unit != "ratio" {
		diag.Expected = bound + " " + f.Unit
	}
	if x == 0 && f.Default != "" {
		diag.Hint = "leave the key out to get the default, " + f.Default
	}
	return false
}

func (d *Decoder) duration(n *syntax.Node, v reflect.Value, f fieldtag.Field, where string) {
	var t time.Duration
	err := errors.New("")
	if n.Kind == syntax.String {
		t, err = time.ParseDuration(n.Text)
	}
	if err != nil {
		diag := d.Report.Node(n, "duration", "%s takes a duration, found %s", place(where), found(n))
		diag.Expected = "a number with its unit, like 500ms, 60s, 2m or 1h30m"
		if n.Kind == syntax.Int || n.Kind == syntax.Float {
			diag.Message = fmt.Sprintf("%s is a duration without a unit", place(where))
			diag.Hint = fmt.Sprintf("write %ss for seconds or %sms for milliseconds", n.Text, n.Text)
		}
		variable(n, diag)
		return
	}
	if f.Min == nil && f.Above == nil && t <= 0 {
		// Much code reads a duration of 0 as "no limit", and the author of a plan
		// means neither.
		d.Report.Node(n, "range", "%s must be more than 0s, found %s", place(where), n.Text)
		return
	}
	if bound := f.Outside(t.Seconds()); bound != "" {
		d.Report.Node(n, "range", "%s must be %s seconds, found %s", place(where), bound, n.Text)
		return
	}
	v.SetInt(int64(t))
}

// rangeText and listText are several numbers in one text: 1-32, 1..32 and 1,8,32.
var (
	rangeText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?(?:ki?|Mi?)?) ?(?:-|:|\.\.+|to) ?([0-9]+(?:\.[0-9]+)?(?:ki?|Mi?)?)$`)
	listText  = regexp.MustCompile(`^[0-9.]+(?:ki?|Mi?)?(?:[ ,;]+[0-9.]+(?:ki?|Mi?)?)+$`)
)

// several says how several numbers are written and where they belong, if they
// stand in the place of one.
func (d *Decoder) several(n *syntax.Node, diag *syntax.Diagnostic, where string) {
	form := ""
	if n.Kind == syntax.String {
		if m := rangeText.FindStringSubmatch(n.Text); m != nil {
			form = fmt.Sprintf("write a range as {from: %s, to: %s, factor: 2}, or with step in place of factor", m[1], m[2])
		} else if listText.MatchString(n.Text) {
			values := strings.FieldsFunc(n.Text, func(r rune) bool { return strings.ContainsRune(" ,;", r) })
			form = "write a list as [" + strings.Join(values, ", ") + "]"
		}
	}
	axis := ""
	if section, key, ok := strings.Cut(where, "."); ok && section != "matrix" && d.Elsewhere != nil {
		_, axis = d.Elsewhere(key[strings.LastIndexByte(key, '.')+1:])
	}
	switch {
	case n.Kind == syntax.List, n.Kind == syntax.Map:
		diag.Hint = axis
	case form != "" && axis != "":
		diag.Hint = axis + ": " + form
	case form != "" && strings.HasPrefix(where, "matrix."):
		diag.Hint = form
	}
}

func variable(n *syntax.Node, diag *syntax.Diagnostic) {
	if n.Kind == syntax.String && strings.Contains(n.Text, "${") {
		diag.Hint = "variables expand in text only; use --set for this"
	}
}

func found(n *syntax.Node) string {
	switch n.Kind {
	case syntax.String:
		if syntax.Credential.MatchString(n.Text) {
			return "a credential"
		}
		if text := []rune(n.Text); len(text) > 40 {
			return fmt.Sprintf("%q", string(text[:40])+"...")
		}
		return fmt.Sprintf("%q", n.Text)
	case syntax.Int, syntax.Float, syntax.Bool:
		return n.Text
	}
	return n.Kind.Name()
}

var (
	decimal = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)$`)
	tokens  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(k|ki|M|Mi)$`)
)

// ParseInt takes decimal numbers only: 010 is eight to one reader and ten to
// the next.
func ParseInt(text string) (int64, error) {
	if !decimal.MatchString(text) {
		return 0, fmt.Errorf("%q is not a decimal number", text)
	}
	return strconv.ParseInt(text, 10, 64)
}

// ParseFloat takes finite decimal numbers.
func ParseFloat(text string) (float64, error) {
	if strings.ContainsAny(text, "xX_pPoO") || len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9' {
		return 0, fmt.Errorf("%q is not a decimal number", text)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, fmt.Errorf("%q is not a finite number", text)
	}
	return x, nil
}

// ParseTokens takes 4k (4,000), 4ki (4,096), 1M and 1Mi.
func ParseTokens(text string) (int64, error) {
	m := tokens.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a number of tokens", text)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, err
	}
	x *= map[string]float64{"k": 1e3, "ki": 1 << 10, "M": 1e6, "Mi": 1 << 20}[m[2]]
	if x != math.Trunc(x) || x > 1<<53 {
		return 0, fmt.Errorf("%q is not a whole number of tokens", text)
	}
	return int64(x), nil
}

// ParseRatio takes a percentage.
func ParseRatio(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	if !ok {
		return 0, fmt.Errorf("%q is not a share", text)
	}
	x, err := ParseFloat(strings.TrimSpace(number))
	return x / 100, err
}
