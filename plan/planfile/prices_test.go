package planfile

import (
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// priced returns a plan on a backend with these GPUs, these lines of prices, and a
// user's configuration unless it is "".
func priced(t *testing.T, backend, gpus, prices, config string) (*plan.Plan, error) {
	t.Helper()
	return parseReal(t, config, "version: 1\nname: prices\nmodel: m\nbackend: "+backend+"\n"+prices+
		"matrix: {engine: vllm, gpu: "+gpus+", args.tensor-parallel-size: 2, concurrency: 1}\n"+
		"load: {requests: 8, max_tokens: 16, prompts: {input_tokens: 20}}\n")
}

func TestPriceOf(t *testing.T) {
	const config = "prices:\n  h100: {usd_per_hour: 1.5}\n  rack7: {usd_per_hour: 3}\n"
	for _, test := range []struct {
		name, backend, gpu, prices, config string
		usd                                float64 // of two GPUs
		source                             string
	}{
		{name: "list price", backend: "sim", gpu: "h100", usd: 5.98, source: result.PriceCatalogue},
		{name: "the user's", backend: "sim", gpu: "h100", config: config, usd: 3, source: result.PriceConfig},
		{name: "the plan's first", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: 2.10}}\n", config: config, usd: 4.2, source: result.PricePlan},
		{name: "another GPU's", backend: "sim", gpu: "h100", prices: "prices: {l4: {usd_per_hour: 2.10}}\n", usd: 5.98, source: result.PriceCatalogue},
		{name: "of a label", backend: "process", gpu: "my-card", prices: "prices: {my-card: {usd_per_hour: 0.5}}\n", usd: 1, source: result.PricePlan},
		{name: "of a label, the user's", backend: "process", gpu: "rack7", config: config, usd: 6, source: result.PriceConfig},
		{name: "a label without one", backend: "process", gpu: "my-card", config: config},
		{name: "an empty configuration", backend: "sim", gpu: "h100", config: "# nothing yet\n", usd: 5.98, source: result.PriceCatalogue},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := priced(t, test.backend, test.gpu, test.prices, test.config)
			if err != nil {
				t.Fatal(err)
			}
			usd, source := p.PriceOf(p.Deployments()[0].Server)
			if usd < test.usd-1e-9 || usd > test.usd+1e-9 || source != test.source {
				t.Errorf("got %v, %q: want %v, %q", usd, source, test.usd, test.source)
			}
		})
	}
}

// TestPrices_digests: what a GPU costs changes no measurement.
func TestPrices_digests(t *testing.T) {
	without, err := priced(t, "sim", "h100", "", "")
	if err != nil {
		t.Fatal(err)
	}
	with, err := priced(t, "sim", "h100", "prices: {h100: {usd_per_hour: 2.10}}\n", "")
	if err != nil {
		t.Fatal(err)
	}
	a, b := without.Cells()[0], with.Cells()[0]
	if a.ID != b.ID || without.SpecDigest(a) != with.SpecDigest(b) || without.Deployments()[0].ID != with.Deployments()[0].ID {
		t.Error("a price changed a digest")
	}
}

func TestPrices_wrong(t *testing.T) {
	for _, test := range []struct{ name, backend, gpu, prices, config, want string }{
		{name: "no such GPU", backend: "sim", gpu: "h100", prices: "prices: {h10: {usd_per_hour: 2}}\n", want: `plan.yaml:5:10: there is no GPU "h10" in the catalogue, and no cell has that label`},
		{name: "a label that no cell has", backend: "process", gpu: "my-card", prices: "prices: {my-cart: {usd_per_hour: 2}}\n", want: "my-card"},
		{name: "a label if there are none", backend: "sim", gpu: "h100", prices: "prices: {my-card: {usd_per_hour: 2}}\n", want: `there is no GPU "my-card"`},
		{name: "negative", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: -1}}\n", want: "more than 0"},
		{name: "nothing", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: 0}}\n", want: "more than 0"},
		{name: "not a number", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: .nan}}\n", want: "usd_per_hour"},
		{name: "infinite", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: .inf}}\n", want: "usd_per_hour"},
		{name: "text", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: two}}\n", want: "takes a number"},
		{name: "null", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hour: null}}\n", want: "usd_per_hour"},
		{name: "missing", backend: "sim", gpu: "h100", prices: "prices: {h100: {}}\n", want: "the GPU h100 has no price"},
		{name: "no mapping", backend: "sim", gpu: "h100", prices: "prices: {h100: 2.10}\n", want: "prices.h100"},
		{name: "an unknown key", backend: "sim", gpu: "h100", prices: "prices: {h100: {usd_per_hours: 2}}\n", want: "usd_per_hour"},
		{name: "a slip in the configuration", backend: "sim", gpu: "h100", config: "prices:\n  H100: {usd_per_hour: 2}\n", want: `config.yaml:2:3: there is no GPU "H100" in the catalogue`},
		{name: "an unknown key of the configuration", backend: "sim", gpu: "h100", config: "price: {}\n", want: "config.yaml:1:1"},
		{name: "no price in the configuration", backend: "sim", gpu: "h100", config: "prices: {h100: {usd_per_hour: 0}}\n", want: "config.yaml:1:31"},
		{name: "no YAML", backend: "sim", gpu: "h100", config: "prices: {h100\n", want: "config.yaml:"},
		{name: "a list", backend: "sim", gpu: "h100", config: "- h100\n", want: "config.yaml:1:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := priced(t, test.backend, test.gpu, test.prices, test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestConfig_notThere(t *testing.T) {
	opts := testOptions()
	opts.Config = filepath.Join(t.TempDir(), "none.yaml")
	_, err := Parse("plan.yaml", t.TempDir(), []byte(simple), opts)
	if err == nil || !strings.Contains(err.Error(), "the user's configuration is not read: no such file or directory") {
		t.Errorf("got %v", err)
	}
}
