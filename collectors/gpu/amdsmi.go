package gpu

import (
	"context"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
)

func amdSMI(h host.Host) *source {
	var uuids map[string]string
	identify := func(list []gpustate.Reading) []gpustate.Reading {
		for i := range list {
			list[i].UUID = uuids[list[i].Index]
		}
		return list
	}
	run := func(command string) func(context.Context) ([]byte, bool, error) {
		return func(ctx context.Context) ([]byte, bool, error) {
			out, err := execute(ctx, h, "amd-smi", command, "--json")
			return out, false, err
		}
	}
	s := &source{name: AMDSMI, file: "amd-smi.json", ask: run("metric")}
	s.parse = func(out []byte, _ bool) ([]gpustate.Reading, error) {
		list, err := gpustate.ParseAMD(out)
		return identify(list), err
	}
	s.open = func(ctx context.Context) ([]gpustate.Reading, []byte, error) {
		list, out, err := s.look(ctx)
		if err != nil {
			return nil, nil, err
		}
		// Without it GPUs have no name but their number.
		if named, _, err := run("list")(ctx); err == nil {
			uuids = gpustate.AMDUUIDs(named)
		}
		return identify(list), out, nil
	}
	s.snapshot = &source{
		name: AMDSMI, file: "amd-smi-process.json", ask: run("process"),
		parse: func(out []byte, _ bool) ([]gpustate.Reading, error) {
			var list []gpustate.Reading
			for index, pids := range gpustate.AMDProcesses(out) {
				r := gpustate.New()
				r.Index, r.PIDs, r.PIDsKnown = index, pids, true
				list = append(list, r)
			}
			if len(list) == 0 {
				return nil, gpustate.ErrAnswer
			}
			return identify(list), nil
		},
	}
	return s
}
