package gpustate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseAMD reads what amd-smi metric --json prints: a list of GPUs, since ROCm
// 7 under gpu_data. A value is a number, or an object with its unit, or N/A.
// Its MB are 2^20 bytes: 196592 of them are the 192 GiB of an MI300X.
func ParseAMD(out []byte) ([]Reading, error) {
	entries, err := objects(out)
	if err != nil {
		return nil, err
	}
	var list []Reading
	for i, g := range entries {
		if _, ok := g["gpu"]; !ok {
			continue
		}
		r := New()
		r.Index = strconv.Itoa(i)
		if n, ok := value(g["gpu"]); ok {
			r.Index = strconv.Itoa(int(n))
		}
		set := func(quantity string, scale float64, paths ...string) {
			for _, path := range paths {
				if v, ok := value(at(g, path)); ok && !amdBlank(v) && r.Set(quantity, v*scale) {
					return
				}
			}
		}
		set(Util, 1, "usage.gfx_activity")
		set(Bandwidth, 1, "usage.umc_activity")
		set(MemoryTotal, mib, "mem_usage.total_vram")
		set(MemoryUsed, mib, "mem_usage.used_vram")
		set(MemoryFree, mib, "mem_usage.free_vram")
		set(Power, 1, "power.socket_power", "power.current_socket_power", "power.average_socket_power")
		set(Energy, 1, "energy.total_energy_consumption")
		set(Temperature, 1, "temperature.hotspot", "temperature.edge")
		set(MemoryTemp, 1, "temperature.mem")
		set(ClockSM, 1, "clock.gfx_0.clk", "clock.gfx.clk")
		set(ClockSMLimit, 1, "clock.gfx_0.max_clk", "clock.gfx.max_clk")
		set(ClockMemory, 1, "clock.mem_0.clk", "clock.mem.clk")
		for path, reason := range map[string]string{
			"throttle.prochot_violation_status":        processorHot,
			"throttle.socket_thermal_violation_status": socketHot,
			"throttle.vr_thermal_violation_status":     regulatorHot,
			"throttle.hbm_thermal_violation_status":    memoryHot,
		} {
			if s, ok := at(g, path).(string); ok && (s == "ACTIVE" || s == "NOT ACTIVE") {
				r.Active(reason, s == "ACTIVE")
			}
		}
		r.complete()
		if len(r.Values) > 0 {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no GPU of amd-smi is in it", ErrAnswer)
	}
	return list, nil
}

// AMDUUIDs reads amd-smi list --json: the UUIDs of the GPUs by their index.
func AMDUUIDs(out []byte) map[string]string {
	entries, err := objects(out)
	if err != nil {
		return nil
	}
	uuids := make(map[string]string)
	for _, g := range entries {
		n, numbered := value(g["gpu"])
		if uuid, ok := g["uuid"].(string); ok && numbered && !missing(uuid) {
			uuids[strconv.Itoa(int(n))] = uuid
		}
	}
	return uuids
}

// AMDProcesses reads amd-smi process --json: the processes by their GPU's index.
func AMDProcesses(out []byte) map[string][]int {
	entries, err := objects(out)
	if err != nil {
		return nil
	}
	pids := make(map[string][]int)
	for _, g := range entries {
		n, numbered := value(g["gpu"])
		list, known := g["process_list"].([]any)
		if !numbered || !known {
			continue
		}
		index := strconv.Itoa(int(n))
		pids[index] = []int{}
		for _, p := range list {
			if o, ok := p.(map[string]any); ok {
				if pid, ok := value(at(o, "process_info.pid")); ok && pid > 0 {
					pids[index] = append(pids[index], int(pid))
				}
			}
		}
	}
	return pids
}

// ParseWrapper reads what a plain HTTP wrapper answers: nvidia-smi's CSV, with
// its header or with the core fields, or JSON: objects with nvidia-smi's fields
// by name, dots or underscores between the words, in a list or under "gpus";
// what amd-smi prints; or the XML.
func ParseWrapper(body []byte, whole bool) ([]Reading, error) {
	trimmed := bytes.TrimSpace(body)
	switch {
	case bytes.HasPrefix(trimmed, []byte("<")):
		return ParseXML(trimmed)
	case !bytes.HasPrefix(trimmed, []byte("[{")) && !bytes.HasPrefix(trimmed, []byte("{")) && !json.Valid(trimmed):
		return ParseCSV(body, coreFields, whole)
	}
	entries, err := objects(body)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 && entries[0]["gpu"] != nil && (entries[0]["usage"] != nil || entries[0]["power"] != nil) {
		return ParseAMD(body)
	}
	var list []Reading
	for i, o := range entries {
		t := table{fields: make([]string, 0, len(o))}
		cells := make([]string, 0, len(o))
		for _, key := range sortedKeys(o) {
			if field := fieldNamed(key); field != "" {
				t.fields, cells = append(t.fields, field), append(cells, cell(o[key]))
			}
		}
		r, _, ok := t.row(cells)
		if text, _ := json.Marshal(o); r.Said == "" && (!ok || lost.Match(text)) {
			r.say(0, string(text))
		}
		if ok && r.Index == "" {
			r.Index = strconv.Itoa(i)
		}
		list = append(list, r)
	}
	if !hasState(list) {
		return nil, ErrAnswer
	}
	return list, nil
}

// fieldNamed returns nvidia-smi's field of a JSON key: utilization_gpu and
// "utilization.gpu [%]" are utilization.gpu.
func fieldNamed(key string) string {
	key, _, _ = strings.Cut(strings.ToLower(key), " [")
	plain := strings.NewReplacer(".", "_", "-", "_").Replace(key)
	for _, field := range []string{"index", "uuid", "gpu_uuid", "driver_version", "name", "gpu_name", "clocks_event_reasons.active", "clocks_throttle_reasons.active"} {
		if strings.ReplaceAll(field, ".", "_") == plain {
			return field
		}
	}
	for field := range smiFields {
		if strings.ReplaceAll(field, ".", "_") == plain {
			return field
		}
	}
	return ""
}

func cell(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case map[string]any:
		return cell(v["value"])
	}
	return ""
}

func sortedKeys(o map[string]any) []string {
	keys := make([]string, 0, len(o))
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// objects returns the JSON objects of an answer: a list of them, one that has such a
// list, or one alone. What a tool says before them is skipped.
func objects(out []byte) ([]map[string]any, error) {
	root, err := document(out)
	if err != nil {
		return nil, err
	}
	if o, ok := root.(map[string]any); ok {
		for _, key := range []string{"gpu_data", "gpus"} {
			if list, ok := o[key].([]any); ok {
				root = list
			}
		}
		if _, ok := root.(map[string]any); ok {
			return []map[string]any{o}, nil
		}
	}
	list, ok := root.([]any)
	if !ok {
		return nil, ErrAnswer
	}
	var entries []map[string]any
	for _, v := range list {
		if o, ok := v.(map[string]any); ok {
			entries = append(entries, o)
		}
	}
	return entries, nil
}

// document decodes the JSON that begins a line of out, of the first lines that
// could.
func document(out []byte) (root any, err error) {
	err = ErrAnswer
	tries := 0
	for line := range bytes.Lines(out) {
		if tries == 16 {
			break
		}
		if c := bytes.TrimSpace(line); len(c) > 0 && (c[0] == '[' || c[0] == '{') {
			tries++
			decoder := json.NewDecoder(bytes.NewReader(out))
			decoder.UseNumber()
			bad := decoder.Decode(&root)
			if bad == nil {
				return root, nil
			}
			err = fmt.Errorf("%w: %w", ErrAnswer, bad)
		}
		out = out[len(line):]
	}
	return nil, err
}

// at follows a path of keys.
func at(o map[string]any, path string) any {
	var v any = o
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// value returns a number, with or without its unit around it.
func value(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	case map[string]any:
		return value(v["value"])
	case string:
		return number(v)
	}
	return 0, false
}
