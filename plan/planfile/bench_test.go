package planfile

import (
	"fmt"
	"strings"
	"testing"
)

// tenThousand has 10,000 cells over 100 servers, an exclude that is tried on
// each, and objectives.
func tenThousand() string {
	return strings.Replace(strings.Replace(simple,
		"  gpu: [l4, t4]\n  concurrency: [1, 4]\n  max_tokens: {from: 64, to: 256, factor: 2}\n",
		"  gpu: l4\n  args.max-num-seqs: {from: 1, to: 100, step: 1}\n  concurrency: {from: 1, to: 10, step: 1}\n  max_tokens: {from: 10, to: 100, step: 10}\n  exclude: ['arg_max_num_seqs == 100 && concurrency == 10 && max_tokens == 100']\n", 1),
		"requests: 8", "requests: 16", 1)
}

func TestTenThousand(t *testing.T) {
	p := parse(t, tenThousand())
	if n, d := len(p.Cells()), len(p.Deployments()); n != 9_999 || d != 100 {
		t.Errorf("%d cells in %d deployments", n, d)
	}
}

// BenchmarkExpand10k validates and expands 10,000 cells. The promise is under
// 0.5 s and 200 MB.
func BenchmarkExpand10k(b *testing.B) {
	src, opts := []byte(tenThousand()), testOptions()
	b.ReportAllocs()
	for b.Loop() {
		p, err := Parse("p.yaml", ".", src, opts)
		if err != nil {
			b.Fatal(err)
		}
		if len(p.Deployments()) != 100 {
			b.Fatal(fmt.Errorf("%d deployments", len(p.Deployments())))
		}
	}
}

// BenchmarkValidateSmall is sweep validate without its process.
func BenchmarkValidateSmall(b *testing.B) {
	src, opts := []byte(simple), testOptions()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("p.yaml", ".", src, opts); err != nil {
			b.Fatal(err)
		}
	}
}
