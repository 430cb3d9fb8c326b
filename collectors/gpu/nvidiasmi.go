package gpu

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
)

const smiFile = "nvidia-smi.csv"

func smiCSV(h host.Host) *source {
	level := 0
	s := &source{name: NvidiaSMI, file: smiFile, snapshot: smiXML(h)}
	s.ask = func(ctx context.Context) ([]byte, bool, error) {
		out, err := execute(ctx, h, "nvidia-smi", "--query-gpu="+strings.Join(gpustate.Questions[level], ","), "--format=csv,noheader,nounits")
		return out, false, err
	}
	s.parse = func(out []byte, whole bool) ([]gpustate.Reading, error) {
		return gpustate.ParseCSV(out, gpustate.Questions[level], whole)
	}
	s.header = func() string { return "t_us, " + strings.Join(gpustate.Questions[level], ", ") + "\n" }
	s.open = func(ctx context.Context) (list []gpustate.Reading, out []byte, err error) {
		// An older driver refuses the whole query for one field, in words that
		// have changed before; so any refusal is worth a smaller question.
		for level = range gpustate.Questions {
			list, out, err = s.look(ctx)
			// Who runs commands in a pod may start a moment after its engine.
			for errors.Is(err, syscall.ECONNREFUSED) && sleep(ctx, 250*time.Millisecond) {
				list, out, err = s.look(ctx)
			}
			if err == nil || final(ctx, err) {
				break
			}
		}
		return list, out, err
	}
	return s
}

// final reports whether another question would have the same answer.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, host.ErrNotSupported) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, gpustate.ErrNoGPU) || errors.Is(err, gpustate.ErrDriver)
}

func smiXML(h host.Host) *source {
	return &source{
		name: NvidiaSMI, file: "nvidia-smi.xml",
		ask: func(ctx context.Context) ([]byte, bool, error) {
			out, err := execute(ctx, h, "nvidia-smi", "-q", "-x")
			return out, false, err
		},
		parse: func(out []byte, _ bool) ([]gpustate.Reading, error) { return gpustate.ParseXML(out) },
	}
}
