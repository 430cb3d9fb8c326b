// Package gpu watches the GPUs that serve a trial: a look before the load, one
// each interval during it and one after the drain. A look comes from one of
// several sources, each with its parser: nvidia-smi as CSV or XML and amd-smi,
// run where the server runs or streamed by its host; the exporters DCGM's,
// nvidia_gpu_exporter and AMD's; or a plain HTTP wrapper in the pod. All give
// the same readings, in the same units:
// see package gpustate.
//
// If there is no source, no GPU, or no way to run a command, the columns are
// null and one finding says why. Every look is bounded in time and in size.
//
// Definitions: utilisation is the share of time in which any kernel
// ran, which says little about how busy a GPU was; power is the driver's own
// average, over a second on newer cards; energy is the GPU's own counter where
// one moves, else power integrated by trapezoids, and a column says which. Of
// what holds clocks down, heat and hardware limits count as throttling; a power
// cap under full load and an idle GPU's low clocks do not.
//
// GPUs are identified by their UUIDs: replicas on one machine see the same ones,
// which count once. If the processes on the GPUs are those of the deployment, only
// GPUs that have one of them count.
package gpu

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sweep.dev/sweep/collectors"
)

// Sources of a [Config].
const (
	Auto         = "auto"
	NvidiaSMI    = "nvidia-smi"
	NvidiaSMIXML = "nvidia-smi-xml"
	AMDSMI       = "amd-smi"
	Exporter     = "exporter"
	HTTP         = "http"
)

// Config is the collector's part of a plan.
type Config struct {
	// Source is where looks come from. Auto tries nvidia-smi, amd-smi and, where
	// URL or Port is given, an exporter.
	Source string `yaml:"source,omitempty" doc:"Source of the GPUs' state. nvidia-smi (CSV, which is cheap, and sometimes XML for the processes), nvidia-smi-xml (only XML) and amd-smi run beside the server. exporter is DCGM's, nvidia_gpu_exporter or AMD's, recognized by the names of their series. http is a wrapper that answers with nvidia-smi's CSV or with JSON. auto tries nvidia-smi, amd-smi and, with a url or port, an exporter." default:"auto" enum:"auto,nvidia-smi,nvidia-smi-xml,amd-smi,exporter,http" example:"exporter"`
	// URL of the exporter or the wrapper, as the server's machine would say it;
	// a path alone is on the server's own port.
	URL string `yaml:"url,omitempty" doc:"URL of the exporter or the wrapper, as seen from the server's machine; a path alone is one of the server's own port. Credentials are never sent." example:"http://127.0.0.1:9400/metrics"`
	// Port stands for the URL http://127.0.0.1:PORT/metrics.
	Port int `yaml:"port,omitempty" doc:"Port of the exporter or the wrapper on the server's machine, instead of a url. Its path is /metrics, or / with http." min:"1" max:"65535" example:"9400"`
	// Interval between two looks while the load runs, 200ms to 1m.
	Interval time.Duration `yaml:"interval,omitempty" doc:"Time between two samples during the load, 200ms to 1m. One run of nvidia-smi takes 20 ms to a second of the server's machine." default:"1s" unit:"s" example:"2s"`
}

// Default is the configuration that a plan's keys are decoded over.
var Default = Config{Source: Auto, Interval: time.Second}

// Factory makes the collector from its part of the plan.
func Factory() collectors.Factory {
	return collectors.Factory{
		Kind:   "gpu",
		Doc:    "GPUs: utilisation, memory, power, energy, clocks, heat and what else runs on them",
		Config: Config{},
		New:    collectors.Configured(Default, New),
	}
}

// A Collector watches the GPUs of one deployment a session.
type Collector struct{ config Config }

var _ collectors.Collector = (*Collector)(nil)

// New checks a configuration.
func New(c Config) (*Collector, error) {
	if c.Source == "" {
		c.Source = Auto
	}
	var errs []error
	from, known := wayNamed(c.Source)
	if !known && c.Source != Auto {
		names := []string{Auto}
		for _, w := range ways() {
			names = append(names, w.name)
		}
		errs = append(errs, fmt.Errorf("gpu: source %q: want one of %s", c.Source, strings.Join(names, ", ")))
	}
	if c.Interval < 200*time.Millisecond || c.Interval > time.Minute {
		errs = append(errs, fmt.Errorf("gpu: interval %v: want 200ms to 1m", c.Interval))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("gpu: port %d: want 1 to 65535", c.Port))
	}
	switch {
	case c.URL != "" && c.Port != 0:
		errs = append(errs, errors.New("gpu: url and port say the same: give one"))
	case from.overHTTP && c.URL == "" && c.Port == 0:
		errs = append(errs, fmt.Errorf("gpu: source %s needs a url or a port", c.Source))
	case !from.overHTTP && c.Source != Auto && (c.URL != "" || c.Port != 0):
		errs = append(errs, fmt.Errorf("gpu: source %s has no url and no port", c.Source))
	}
	if c.URL != "" && !strings.HasPrefix(c.URL, "/") {
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			errs = append(errs, errors.New("gpu: url: want http://HOST:PORT/PATH without credentials, or a path"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Collector{c}, nil
}

// limit bounds one look. nvidia-smi may be slow to start where nothing keeps
// the driver loaded.
func (c Config) limit() time.Duration {
	return min(max(5*c.Interval, 2*time.Second), 5*time.Second)
}

// address returns where the exporter or the wrapper of a server is.
func (c Config) address(server string) string {
	switch {
	case c.Port != 0 && c.Source == HTTP:
		return fmt.Sprintf("http://127.0.0.1:%d/", c.Port)
	case c.Port != 0:
		return fmt.Sprintf("http://127.0.0.1:%d/metrics", c.Port)
	case strings.HasPrefix(c.URL, "/"):
		return strings.TrimSuffix(server, "/") + c.URL
	default:
		return c.URL
	}
}
