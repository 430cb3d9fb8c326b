package strict

import "testing"

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse func(string) (float64, error)
		text  string
		want  float64
		ok    bool
	}{
		{"tokens", tokensOf, "4k", 4000, true},
		{"tokens", tokensOf, "4ki", 4096, true},
		{"tokens", tokensOf, "1.5k", 1500, true},
		{"tokens", tokensOf, "1M", 1e6, true},
		{"tokens", tokensOf, "2Mi", 2 << 20, true},
		{"tokens", tokensOf, "0.0001k", 0, false}, // no whole token
		{"tokens", tokensOf, "4K", 0, false},      // 4,000 to one reader, 4,096 to the next
		{"tokens", tokensOf, "4 k", 0, false},
		{"tokens", tokensOf, "-4k", 0, false},
		{"tokens", tokensOf, "99999999999999999M", 0, false},
		{"int", intOf, "010", 0, false},
		{"int", intOf, "0x10", 0, false},
		{"int", intOf, "1_000", 0, false},
		{"int", intOf, "+5", 5, true},
		{"int", intOf, "-0", 0, true},
		{"int", intOf, "9223372036854775808", 0, false},
		{"float", ParseFloat, "1e3", 1000, true},
		{"float", ParseFloat, "0.5", 0.5, true},
		{"float", ParseFloat, ".5", 0.5, true},
		{"float", ParseFloat, ".inf", 0, false},
		{"float", ParseFloat, "1e999", 0, false},
		{"float", ParseFloat, "0x1p-2", 0, false},
		{"float", ParseFloat, "010", 0, false},
		{"ratio", ParseRatio, "80%", 0.8, true},
		{"ratio", ParseRatio, "0.8", 0, false}, // a number, which needs no parsing
		{"ratio", ParseRatio, "%", 0, false},
	} {
		got, err := tt.parse(tt.text)
		if (err == nil) != tt.ok || tt.ok && got != tt.want {
			t.Errorf("%s %q = %v, %v; want %v, %v", tt.name, tt.text, got, err, tt.want, tt.ok)
		}
	}
}

func tokensOf(s string) (float64, error) { n, err := ParseTokens(s); return float64(n), err }
func intOf(s string) (float64, error)    { n, err := ParseInt(s); return float64(n), err }

func TestLooksSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "X-Api-Key": true, "Cookie": true, "HF_TOKEN": true, "api-key": true, "key": true,
		"TOKENIZERS_PARALLELISM": false, "X-Team": false, "Accept-Language": false, "OMP_NUM_THREADS": false,
	} {
		if got := LooksSecret(name); got != want {
			t.Errorf("LooksSecret(%s) = %v", name, got)
		}
	}
}
