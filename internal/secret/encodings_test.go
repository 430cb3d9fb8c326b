package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/secret"
)

// A secret with everything that an encoding touches.
const awkward = `p&ss/w+rd="<ü🚀>\` + "\tx y"

func TestMask_encodings(t *testing.T) {
	for _, value := range []string{"hf_canary81f3c5d7e9b1a2c4", "12345678", awkward} {
		m := secret.NewMask([]secret.String{secret.New("${S}", value)})
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var unescaped bytes.Buffer
		enc := json.NewEncoder(&unescaped)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			t.Fatal(err)
		}
		basic, err := http.NewRequest(http.MethodGet, "http://x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		basic.SetBasicAuth("someone", value)
		texts := map[string]string{
			"plain": value,
			"hex":   hex.EncodeToString([]byte(value)),
			"HEX":   fmt.Sprintf("%X", value),
			"query": url.Values{"key": {value}}.Encode(),
			"path":  (&url.URL{Path: "/a"}).String() + "/" + url.PathEscape(value),
			"query in small letters": strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3D", "%3d", "%3C", "%3c", "%3E", "%3e", "%5C", "%5c",
				"%C3%BC", "%c3%bc", "%F0%9F%9A%80", "%f0%9f%9a%80").Replace(url.QueryEscape(value)),
			"query with %20":  strings.ReplaceAll(url.QueryEscape(value), "+", "%20"),
			"JSON":            string(quoted),
			"JSON, not HTML":  unescaped.String(),
			"JSON of PHP":     strings.ReplaceAll(unescaped.String(), "/", `\/`),
			"basic":           basic.Header.Get("Authorization"),
			"JSON of Python":  strings.NewReplacer("ü", `\u00fc`, "🚀", `\ud83d\ude80`).Replace(unescaped.String()),
			"raw base64":      base64.RawStdEncoding.EncodeToString([]byte(value)),
			"base64 of JSON":  base64.StdEncoding.EncodeToString([]byte(`{"auths":{"r":{"password":"` + value + `"}}}`)),
			"base64 for URLs": base64.URLEncoding.EncodeToString([]byte("a:" + value)),
		}
		for before := range 6 {
			for after := range 3 {
				text := strings.Repeat("~", before) + value + strings.Repeat("?", after)
				texts[fmt.Sprintf("base64 between %d and %d", before, after)] = base64.StdEncoding.EncodeToString([]byte(text))
				texts[fmt.Sprintf("base64 for URLs between %d and %d", before, after)] = base64.URLEncoding.EncodeToString([]byte(text))
			}
		}
		for name, text := range texts {
			if name == "base64 of JSON" && value == awkward {
				continue // as JSON it is another text
			}
			got := m.Text("before " + text + " after")
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || strings.Count(got, "${S}") != 1 {
				t.Errorf("%s of %q: %q became %q", name, value, text, got)
			}
			// At most the bits that the neighbours share are left.
			if left := len(got) - len("before ${S} after"); strings.HasPrefix(name, "base64 between 0 and 0") && left > 4 {
				t.Errorf("%s of %q leaves %q", name, value, got)
			}
		}
	}
}

// FuzzMask hides a secret wherever it stands, and by whatever pieces it comes.
func FuzzMask(f *testing.F) {
	f.Add("hf_canary81f3c5d7e9b1a2c4", "before ", " after", uint8(3))
	f.Add(awkward, "a", "", uint8(1))
	f.Add("aaaaaaaa", "aaaa", "aaaaa", uint8(7))
	f.Fuzz(func(t *testing.T, value, before, after string, piece uint8) {
		m := secret.NewMask([]secret.String{secret.New("#", value)})
		if m.IsZero() || len(value)+len(before)+len(after) > 1000 {
			return
		}
		for _, text := range []string{
			before + value + after,
			before + hex.EncodeToString([]byte(value)) + after,
			before + url.QueryEscape(value) + after,
			"/" + base64.StdEncoding.EncodeToString([]byte(before+value+after)) + "/",
		} {
			got := m.Text(text)
			if got == text {
				t.Errorf("%q stays", text)
			}
			if strings.Contains(got, value) && !strings.Contains(value, "#") {
				t.Errorf("%q became %q", text, got)
			}
			var out strings.Builder
			found, err := m.Copy(&out, &pieces{text, int(piece) + 1})
			if err != nil || !found || out.String() != got {
				t.Errorf("%q: copied as %q, %t, %v; as a text %q", text, out.String(), found, err, got)
			}
		}
	})
}

// pieces reads a text so many bytes at a time.
type pieces struct {
	text string
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.n, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// BenchmarkMask copies an engine's log of 8 MiB.
func BenchmarkMask(b *testing.B) {
	line := `(APIServer pid=1) INFO 11-21 10:15:00 [loggers.py:123] Engine 000: Avg prompt throughput: 5123.4 tokens/s, Avg generation throughput: 361.2 tokens/s, Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.2%` + "\n"
	log := []byte(strings.Repeat(line, 8<<20/len(line)))
	// Every line tells the secret: the worst that a server does.
	told := []byte(strings.Repeat(strings.ReplaceAll(line, "loggers", "hf_canary81f3c5d7e9b1a2c4"), 8<<20/(len(line)+18)))
	var many []secret.String
	for i := range 8 {
		many = append(many, secret.New("${S}", fmt.Sprintf("hf_canary81f3c5d7e9b1a2c%d", 4+i)))
	}
	for _, c := range []struct {
		name    string
		secrets []secret.String
		log     []byte
	}{{"1 secret", many[:1], log}, {"8 secrets", many, log}, {"8 secrets, told in every line", many, told}} {
		b.Run(c.name, func(b *testing.B) {
			m := secret.NewMask(c.secrets)
			b.SetBytes(int64(len(c.log)))
			for b.Loop() {
				if _, err := m.Copy(io.Discard, bytes.NewReader(c.log)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
