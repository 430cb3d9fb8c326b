package wire

import "bytes"

// A scanner reads a chunk in one pass over its bytes and allocates nothing.
//
// It checks the whole of the JSON as it goes, and gives up at anything that could
// make it disagree with a decoder: a key that occurs twice or is escaped, a
// value of an unexpected type where it matters, an error object, deep nesting,
// anything malformed. Giving up costs a real decode, never a wrong answer.
type scanner struct {
	b []byte
	i int
	c chunk

	texts int // of output
	at    int // where the last of them begins

	memo memo
}

// A memo is the last event that was scanned and had one plain text, and what it
// meant. The next of the stream nearly always differs in that text alone, and
// then it means the same.
type memo struct {
	event    []byte
	from, to int // of its text; to is 0 if there is none
	meant    chunk
}

// maxMemo is the longest event that is remembered, in bytes: each stream of the
// standard driver has a memo.
const maxMemo = 16 << 10

// keep remembers an event.
func (m *memo) keep(data []byte, at int, c *chunk) {
	m.event = append(m.event[:0], data...)
	m.from, m.to, m.meant = at, at+len(c.text), *c
	m.meant.text = nil
}

// again returns the meaning of data if it differs from the remembered event in its text only.
// The text must need no unescaping and must not be empty.
func (m *memo) again(data []byte) (chunk, bool) {
	to := len(data) - (len(m.event) - m.to)
	if m.to == 0 || to <= m.from || !bytes.Equal(data[:m.from], m.event[:m.from]) || !bytes.Equal(data[to:], m.event[m.to:]) {
		return chunk{}, false
	}
	text := data[m.from:to]
	for _, c := range text {
		if c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			return chunk{}, false
		}
	}
	c := m.meant
	c.text = text
	return c, true
}

// scan reads data into s.c; false means that it is not sure and that s.c means
// nothing.
func (s *scanner) scan(data []byte) bool {
	s.b, s.i, s.c, s.texts = data, 0, chunk{count: noUsage}, 0
	s.space()
	if !s.top() {
		return false
	}
	s.space()
	return s.i == len(s.b)
}

// Keys that matter, one bit each in a set of those seen in an object.
const (
	keyOther = 0
	keyA     = 1 << iota
	keyB
	keyC
	keyD
	keyE
)

func (s *scanner) top() bool {
	return s.object(func(s *scanner, key []byte) (bit uint8, ok bool) {
		switch string(key) {
		case "choices":
			return keyA, s.choices()
		case "usage":
			return keyB, s.null() || s.usage()
		case "error":
			return keyC, s.null()
		case "object":
			// The flat form of an error says so here.
			kind, ok := s.plainText()
			return keyD, ok && string(kind) != "error"
		}
		if decodedNames[string(key)] {
			return keyOther, s.null() // what else it may mean is decoded
		}
		return keyOther, s.skip(0)
	})
}

func (s *scanner) choices() bool {
	return s.null() || s.array(func(s *scanner) bool {
		var index int
		var finished bool
		s.c.choice = true
		ok := s.object(func(s *scanner, key []byte) (uint8, bool) {
			switch string(key) {
			case "index":
				var ok bool
				index, ok = s.number()
				return keyA, ok
			case "finish_reason":
				if s.null() {
					return keyB, true
				}
				reason, ok := s.plainText()
				if len(reason) > 0 {
					finished = true
					s.c.finish = intern(reason)
				}
				return keyB, ok
			case "delta":
				return keyC, s.null() || s.delta()
			case "text":
				return keyD, s.null() || s.content(true)
			case choiceUsage:
				return keyOther, s.null()
			case "message":
				return keyOther, false
			}
			return keyOther, s.skip(0)
		})
		bit := uint64(1) << (index % 64)
		s.c.seen |= bit
		if finished {
			s.c.finished |= bit
		}
		return ok
	})
}

func (s *scanner) delta() bool {
	return s.object(func(s *scanner, key []byte) (uint8, bool) {
		switch string(key) {
		case "content":
			return keyA, s.null() || s.content(true)
		case "reasoning":
			return keyB, s.null() || s.content(false)
		case "reasoning_content":
			return keyC, s.null() || s.content(false)
		case "tool_calls":
			return keyD, s.null() || s.array((*scanner).toolCall)
		}
		if _, ok := textMembers[string(key)]; ok || string(key) == "function_call" {
			return keyOther, s.nothing() // with text in it, it is decoded
		}
		return keyOther, s.skip(0)
	})
}

func (s *scanner) toolCall() bool {
	return s.object(func(s *scanner, key []byte) (uint8, bool) {
		if string(key) == "function" {
			ok := s.null() || s.function()
			s.c.text, s.texts = nil, 2 // it is no text to go on with
			return keyA, ok
		}
		return keyOther, s.skip(0)
	})
}

func (s *scanner) function() bool {
	return s.object(func(s *scanner, key []byte) (uint8, bool) {
		switch string(key) {
		case "name":
			return keyA, s.null() || s.content(true)
		case "arguments":
			return keyB, s.null() || s.content(true)
		}
		return keyOther, s.skip(0)
	})
}

func (s *scanner) usage() bool {
	s.c.usage = true
	return s.object(func(s *scanner, key []byte) (uint8, bool) {
		var ok bool
		switch string(key) {
		case "prompt_tokens":
			s.c.count.prompt, ok = s.number()
			return keyA, ok
		case "completion_tokens":
			s.c.count.completion, ok = s.number()
			return keyB, ok
		case "prompt_tokens_details":
			return keyC, s.null() || s.details()
		case "total_tokens":
			s.c.count.total, ok = s.number()
			return keyD, ok
		case "reasoning_tokens":
			s.c.count.reasoning, ok = s.number()
			return keyE, ok
		}
		if counterNames[string(key)] {
			return keyOther, s.null()
		}
		return keyOther, s.skip(0)
	})
}

func (s *scanner) details() bool {
	return s.object(func(s *scanner, key []byte) (uint8, bool) {
		if string(key) == "cached_tokens" {
			if s.null() {
				return keyA, true
			}
			var ok bool
			s.c.count.cached, ok = s.number()
			return keyA, ok
		}
		return keyOther, s.skip(0)
	})
}

// content takes a string that is a token if it is not empty.
func (s *scanner) content(output bool) bool {
	start := s.i
	plain, ok := s.str()
	if ok && s.i-start > len(`""`) {
		s.c.token = true
		s.c.output = s.c.output || output
		if output {
			s.c.text = nil
			if s.texts++; s.texts == 1 && plain {
				s.c.text, s.at = s.b[start+1:s.i-1], start+1
			}
		}
	}
	return ok
}

// intern returns the reasons that servers give without a copy.
func intern(reason []byte) string {
	switch string(reason) {
	case "length":
		return "length"
	case "stop":
		return "stop"
	case "tool_calls":
		return "tool_calls"
	}
	return string(reason)
}

// object reads an object. member reads the value of each key and returns the
// key's bit; one that comes again is not for us to judge.
func (s *scanner) object(member func(*scanner, []byte) (uint8, bool)) bool {
	if !s.is('{') {
		return false
	}
	s.space()
	if s.is('}') {
		return true
	}
	var seen uint8
	for {
		s.space()
		start := s.i + 1
		plain, ok := s.str()
		if !ok || !plain {
			return false
		}
		key := s.b[start : s.i-1]
		s.space()
		if !s.is(':') {
			return false
		}
		s.space()
		bit, ok := member(s, key)
		if !ok || seen&bit != 0 {
			return false
		}
		seen |= bit
		s.space()
		if s.is('}') {
			return true
		}
		if !s.is(',') {
			return false
		}
	}
}

func (s *scanner) array(element func(*scanner) bool) bool {
	if !s.is('[') {
		return false
	}
	s.space()
	if s.is(']') {
		return true
	}
	for {
		s.space()
		if !element(s) {
			return false
		}
		s.space()
		if s.is(']') {
			return true
		}
		if !s.is(',') {
			return false
		}
	}
}

const maxDepth = 16

// skip passes over a value of any kind.
func (s *scanner) skip(depth int) bool {
	if s.i == len(s.b) || depth > maxDepth {
		return false
	}
	switch s.b[s.i] {
	case '"':
		_, ok := s.str()
		return ok
	case '{':
		return s.object(func(s *scanner, _ []byte) (uint8, bool) { return keyOther, s.skip(depth + 1) })
	case '[':
		return s.array(func(s *scanner) bool { return s.skip(depth + 1) })
	case 'n':
		return s.null()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	}
	return s.anyNumber()
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) is(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// nothing passes over a value that holds no text.
func (s *scanner) nothing() bool { return s.null() || s.literal(`""`) || s.literal("[]") }

func (s *scanner) null() bool { return s.literal("null") }

func (s *scanner) literal(l string) bool {
	if len(s.b)-s.i >= len(l) && string(s.b[s.i:s.i+len(l)]) == l {
		s.i += len(l)
		return true
	}
	return false
}

// plainText returns a string that stands for itself.
func (s *scanner) plainText() ([]byte, bool) {
	start := s.i + 1
	plain, ok := s.str()
	if !ok || !plain {
		return nil, false
	}
	return s.b[start : s.i-1], true
}

// str passes over a string; plain says that it has no escapes and nothing but
// ASCII, so that it stands for itself.
func (s *scanner) str() (plain, ok bool) {
	if !s.is('"') {
		return false, false
	}
	plain = true
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch {
		case c == '"':
			return plain, true
		case c < 0x20:
			return false, false
		case c >= 0x80:
			plain = false
		case c == '\\':
			plain = false
			if !s.escape() {
				return false, false
			}
		}
	}
	return false, false
}

func (s *scanner) escape() bool {
	if s.i == len(s.b) {
		return false
	}
	c := s.b[s.i]
	s.i++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if s.i == len(s.b) || !hex(s.b[s.i]) {
				return false
			}
			s.i++
		}
		return true
	}
	return false
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) digits() (n int) {
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
		n++
	}
	return n
}

// number reads a count: digits that are no other number, and few enough.
func (s *scanner) number() (int, bool) {
	start := s.i
	n := s.digits()
	if n == 0 || n > 9 || n > 1 && s.b[start] == '0' {
		return 0, false
	}
	if s.i < len(s.b) {
		switch s.b[s.i] {
		case '.', 'e', 'E':
			return 0, false
		}
	}
	v := 0
	for _, c := range s.b[start:s.i] {
		v = v*10 + int(c-'0')
	}
	return v, true
}

// anyNumber passes over any JSON number.
func (s *scanner) anyNumber() bool {
	s.is('-')
	start := s.i
	if n := s.digits(); n == 0 || n > 1 && s.b[start] == '0' {
		return false
	}
	if s.is('.') && s.digits() == 0 {
		return false
	}
	if s.is('e') || s.is('E') {
		if !s.is('+') {
			s.is('-')
		}
		return s.digits() > 0
	}
	return true
}
