package gpustate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// An xmlLog is the part of nvidia-smi -q -x that is read. The schema changed over the years: power
// stands in power_readings/power_draw (v11), in gpu_power_readings/power_draw
// (v12) and in gpu_power_readings as average and instant (v13); what holds the
// clocks down was called throttle reasons, and has counters in v13.
type xmlLog struct {
	XMLName xml.Name
	Driver  string   `xml:"driver_version"`
	GPUs    []xmlGPU `xml:"gpu"`
}

type xmlGPU struct {
	Name       string        `xml:"product_name"`
	UUID       string        `xml:"uuid"`
	Parts      []xmlPart     `xml:"mig_devices>mig_device"`
	Memory     xmlMemory     `xml:"fb_memory_usage"`
	Util       string        `xml:"utilization>gpu_util"`
	Bandwidth  string        `xml:"utilization>memory_util"`
	Temp       string        `xml:"temperature>gpu_temp"`
	MemoryTemp string        `xml:"temperature>memory_temp"`
	OldPower   xmlPower      `xml:"power_readings"`
	Power      xmlPower      `xml:"gpu_power_readings"`
	ClockSM    string        `xml:"clocks>sm_clock"`
	MaxClockSM string        `xml:"max_clocks>sm_clock"`
	ClockMem   string        `xml:"clocks>mem_clock"`
	OldReasons xmlElements   `xml:"clocks_throttle_reasons"`
	Reasons    xmlElements   `xml:"clocks_event_reasons"`
	Counters   xmlElements   `xml:"clocks_event_reasons_counters"`
	Processes  *xmlProcesses `xml:"processes"`
}

type xmlPart struct {
	Instance string    `xml:"gpu_instance_id"`
	Compute  string    `xml:"compute_instance_id"`
	Memory   xmlMemory `xml:"fb_memory_usage"`
}

type xmlMemory struct {
	Total    string `xml:"total"`
	Reserved string `xml:"reserved"`
	Used     string `xml:"used"`
	Free     string `xml:"free"`
}

type xmlPower struct {
	Draw    string `xml:"power_draw"`
	Average string `xml:"average_power_draw"`
	Instant string `xml:"instant_power_draw"`
	// Of the limits, the one in force is called enforced up to v11, and current since.
	OldLimit  string `xml:"power_limit"`
	Requested string `xml:"requested_power_limit"`
	Enforced  string `xml:"enforced_power_limit"`
	Current   string `xml:"current_power_limit"`
}

type xmlElements struct {
	List []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

type xmlProcesses struct {
	Text string `xml:",chardata"` // N/A, or who may not see them
	List []struct {
		PID string `xml:"pid"`
	} `xml:"process_info"`
}

// ParseXML reads what nvidia-smi -q -x prints, of schema v10 to v13. The parts
// of a GPU follow it. An answer that was cut is an error: nothing of it counts.
func ParseXML(out []byte) ([]Reading, error) {
	var log xmlLog
	decoder := xml.NewDecoder(bytes.NewReader(out))
	// Whatever it was written in, it is UTF-8 by now.
	decoder.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	if err := decoder.Decode(&log); err != nil {
		if said := Complaint(string(out)); !errors.Is(said, ErrAnswer) {
			return nil, said
		}
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if log.XMLName.Local != "nvidia_smi_log" {
		return nil, ErrAnswer
	}
	if len(log.GPUs) == 0 {
		return nil, ErrNoGPU
	}
	list := before(out)
	absent := len(list) > 0
	for i, g := range log.GPUs {
		r := g.state()
		r.Driver = text(strings.TrimSpace(log.Driver))
		if !absent {
			// The XML has no index; its order is that of nvidia-smi.
			r.Index = strconv.Itoa(i)
		}
		list = append(list, r)
		for _, p := range g.Parts {
			part := New()
			part.UUID, part.Index, part.Name, part.Driver = r.UUID, r.Index, r.Name, r.Driver
			part.Part = strings.TrimSpace(p.Instance) + "/" + strings.TrimSpace(p.Compute)
			p.Memory.into(&part)
			list = append(list, part)
		}
	}
	return list, nil
}

// before reads the lines before the XML that say that a GPU is lost, which the
// XML then leaves out.
func before(out []byte) (list []Reading) {
	n := 0
	for text := range strings.Lines(string(out)) {
		if n++; strings.HasPrefix(strings.TrimSpace(text), "<") {
			break
		}
		if r := line(n, text); r.Lost {
			list = append(list, r)
		}
	}
	return list
}

// say keeps the text of a GPU that is lost.
func (g *xmlGPU) say(r *Reading) {
	for _, text := range []string{g.UUID, g.Memory.Used, g.Util, g.Temp, g.ClockSM, g.OldPower.Draw, g.Power.Draw, g.Power.Average, g.Power.Instant} {
		if r.Said == "" && lost.MatchString(text) {
			r.say(0, text)
		}
	}
}

func (g *xmlGPU) state() Reading {
	r := New()
	g.say(&r)
	if uuid := strings.TrimSpace(g.UUID); nvidiaUUID(uuid) {
		r.UUID = uuid
	}
	r.Name = text(strings.TrimSpace(g.Name))
	g.Memory.into(&r)
	for _, v := range []struct{ quantity, text string }{
		{Util, g.Util},
		{Bandwidth, g.Bandwidth},
		{Temperature, g.Temp},
		{MemoryTemp, g.MemoryTemp},
		{ClockSM, g.ClockSM},
		{ClockSMLimit, g.MaxClockSM},
		{ClockMemory, g.ClockMem},
		// The last one that is a number counts.
		{Power, g.OldPower.Instant},
		{Power, g.Power.Instant},
		{Power, g.OldPower.Average},
		{Power, g.Power.Average},
		{Power, g.OldPower.Draw},
		{Power, g.Power.Draw},
		{PowerLimit, g.OldPower.OldLimit},
		{PowerLimit, g.Power.Requested},
		{PowerLimit, g.OldPower.Enforced},
		{PowerLimit, g.Power.Current},
	} {
		if n, ok := number(v.text); ok {
			r.Set(v.quantity, n)
		}
	}
	for _, e := range append(g.OldReasons.List, g.Reasons.List...) {
		reason, ok := strings.CutPrefix(e.XMLName.Local, "clocks_event_reason_")
		if !ok {
			reason, ok = strings.CutPrefix(e.XMLName.Local, "clocks_throttle_reason_")
		}
		if state := strings.TrimSpace(e.Text); ok && (state == "Active" || state == "Not Active") {
			r.Active(reason, state == "Active")
		}
	}
	for _, e := range g.Counters.List {
		if us, ok := number(e.Text); ok {
			switch strings.TrimPrefix(e.XMLName.Local, "clocks_event_reasons_counters_") {
			case "sw_power_cap":
				r.Set(Throttled+SWPowerCap, us/1e3)
			case "sw_therm_slowdown":
				r.Set(Throttled+SWThermal, us/1e3)
			case "hw_therm_slowdown":
				r.Set(Throttled+HWThermal, us/1e3)
			case "hw_power_brake":
				r.Set(Throttled+HWPowerBrake, us/1e3)
			}
		}
	}
	if g.Processes != nil && strings.TrimSpace(g.Processes.Text) == "" {
		r.PIDsKnown = true
		for _, p := range g.Processes.List {
			if pid, err := strconv.Atoi(strings.TrimSpace(p.PID)); err == nil && pid > 0 {
				r.PIDs = append(r.PIDs, pid)
			}
		}
	}
	return r
}

func (m xmlMemory) into(r *Reading) {
	for quantity, s := range map[string]string{MemoryTotal: m.Total, MemoryReserved: m.Reserved, MemoryUsed: m.Used, MemoryFree: m.Free} {
		if n, ok := number(s); ok {
			r.Set(quantity, n*mib)
		}
	}
	r.complete()
}
