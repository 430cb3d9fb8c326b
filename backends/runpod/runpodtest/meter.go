package runpodtest

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Prices of disks, in USD per GB and month of 730 hours. Of a stopped pod the
// container disk is wiped and the volume costs double.
const (
	containerDisk = 0.10
	volumeDisk    = 0.10
	stoppedVolume = 0.20
	monthHours    = 730.0
)

// A span is a time in which a pod cost the same. It is billed by the second, a
// second that has begun in full.
type span struct {
	from, to  time.Time // to is zero while it goes on
	gpu, disk float64   // USD per hour
}

// A meter says what a pod has cost: from the moment its create was accepted to
// that in which it was really gone.
type meter struct{ spans []span }

// set ends what was and begins another rate; both zero is the end.
func (m *meter) set(now time.Time, gpu, disk float64) {
	if n := len(m.spans); n > 0 && m.spans[n-1].to.IsZero() {
		m.spans[n-1].to = now
	}
	if gpu != 0 || disk != 0 {
		m.spans = append(m.spans, span{from: now, gpu: gpu, disk: disk})
	}
}

// cost returns the bill for what lies between two times; rate are billed seconds for
// each second of the clock.
func (m *meter) cost(from, to, now time.Time, rate float64) (gpu, disk float64) {
	for _, s := range m.spans {
		end := s.to
		if end.IsZero() {
			end = now
		}
		if from.After(s.from) {
			s.from = from
		}
		if end.After(to) {
			end = to
		}
		if !end.After(s.from) {
			continue
		}
		hours := math.Ceil(end.Sub(s.from).Seconds()*rate) / 3600
		gpu += s.gpu * hours
		disk += s.disk * hours
	}
	return gpu, disk
}

// diskHour returns what a pod's disks cost in an hour.
func (p *pod) diskHour(stopped bool) float64 {
	volume := 0.0
	if p.mounts.Persistent != nil {
		volume = float64(p.mounts.Persistent.Size)
	}
	if stopped {
		return volume * stoppedVolume / monthHours
	}
	return (float64(p.disk)*containerDisk + volume*volumeDisk) / monthHours
}

// A billingQuery is a window of time in buckets.
type billingQuery struct {
	from, to time.Time
	size     string
}

// floor returns the boundary at or before t.
func floor(t time.Time, size string) time.Time {
	t = t.UTC()
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	switch size {
	case "hour":
		return t.Truncate(time.Hour)
	case "week":
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	case "month":
		return day.AddDate(0, 0, 1-day.Day())
	case "year":
		return time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return day
}

func next(t time.Time, size string, n int) time.Time {
	switch size {
	case "hour":
		return t.Add(time.Duration(n) * time.Hour)
	case "week":
		return t.AddDate(0, 0, 7*n)
	case "month":
		return t.AddDate(0, n, 0)
	case "year":
		return t.AddDate(n, 0, 0)
	}
	return t.AddDate(0, 0, n)
}

var bucketSizes = []string{"hour", "day", "week", "month", "year"}

// parseBilling reads the window; it has answered if that is wrong.
func (e *Emulator) parseBilling(c *call) (q billingQuery, ok bool) {
	v := c.r.URL.Query()
	now := e.now()
	q.size = "day"
	if s := v.Get("bucketSize"); s != "" {
		if !slices.Contains(bucketSizes, s) {
			c.invalid("query.bucketSize: value must be one of 'hour', 'day', 'week', 'month', 'year'")
			return q, false
		}
		q.size = s
	}
	q.from, q.to = now.AddDate(0, 0, -30), now
	if s := v.Get("lastN"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			c.invalid("query.lastN: minimum: got " + s + ", want 1")
			return q, false
		}
		if v.Has("startTime") || v.Has("endTime") {
			c.fail(http.StatusBadRequest, "lastN and startTime/endTime are mutually exclusive")
			return q, false
		}
		q.from = next(floor(now, q.size), q.size, 1-n)
	}
	for name, at := range map[string]*time.Time{"startTime": &q.from, "endTime": &q.to} {
		if s := v.Get(name); s != "" {
			t, err := time.Parse(time.RFC3339, s)
			if err != nil {
				c.invalid("query." + name + ": '" + s + "' is not valid date-time")
				return q, false
			}
			*at = t
		}
	}
	q.from = floor(q.from, q.size)
	if end := floor(q.to, q.size); end.Equal(q.to) {
		q.to = end
	} else {
		q.to = next(end, q.size, 1)
	}
	return q, true
}

// buckets calls f for each bucket of the window.
func (q billingQuery) buckets(f func(from, to time.Time)) {
	for from := q.from; from.Before(q.to); from = next(from, q.size, 1) {
		f(from, next(from, q.size, 1))
	}
}

func (q billingQuery) echo() map[string]any {
	return map[string]any{"startTime": stamp(q.from), "endTime": stamp(q.to), "bucketSize": q.size}
}

// podBilling answers with one record for each pod and bucket.
func (e *Emulator) podBilling(c *call) {
	q, ok := e.parseBilling(c)
	if !ok {
		return
	}
	only := c.r.URL.Query().Get("podId")
	records, seen := []any{}, map[string]bool{}
	var gpus, disks float64
	e.mu.Lock()
	now := e.now()
	q.buckets(func(from, to time.Time) {
		for _, p := range e.pods {
			gpu, disk := p.meter.cost(from, to, now, e.opts.BillRate)
			if only != "" && p.id != only || gpu+disk == 0 {
				continue
			}
			gpus, disks, seen[p.id] = gpus+gpu, disks+disk, true
			records = append(records, map[string]any{
				"startTime": stamp(from), "endTime": stamp(to), "podId": p.id,
				"totalAmount": gpu + disk, "gpuAmount": gpu, "cpuAmount": 0, "diskAmount": disk,
			})
		}
	})
	e.mu.Unlock()
	echo := q.echo()
	echo["podId"] = nil
	if only != "" {
		echo["podId"] = only
	}
	c.json(http.StatusOK, map[string]any{"records": records, "metadata": map[string]any{
		"query": echo, "recordCount": len(records), "uniquePodCount": len(seen),
		"totals": map[string]any{"totalAmount": gpus + disks, "gpuAmount": gpus, "cpuAmount": 0, "diskAmount": disks},
	}})
}

// amounts returns a line of the whole account's bill, of which only pods are here.
func amounts(gpu, disk float64) map[string]any {
	m := map[string]any{"totalAmount": gpu + disk, "podGpuAmount": gpu, "podDiskAmount": disk}
	for _, none := range []string{
		"podCpuAmount", "serverlessGpuAmount", "serverlessCpuAmount", "serverlessDiskAmount", "serverlessFeeAmount",
		"storageStandardAmount", "storageHighPerformanceAmount", "endpointAmount",
		"clusterGpuAmount", "clusterDiskAmount", "clusterNetworkingAmount",
	} {
		m[none] = 0
	}
	return m
}

// billing answers with one record for each bucket.
func (e *Emulator) billing(c *call) {
	q, ok := e.parseBilling(c)
	if !ok {
		return
	}
	records := []any{}
	var gpus, disks float64
	e.mu.Lock()
	now := e.now()
	q.buckets(func(from, to time.Time) {
		var gpu, disk float64
		for _, p := range e.pods {
			g, d := p.meter.cost(from, to, now, e.opts.BillRate)
			gpu, disk = gpu+g, disk+d
		}
		if gpu+disk == 0 {
			return
		}
		gpus, disks = gpus+gpu, disks+disk
		record := amounts(gpu, disk)
		record["startTime"], record["endTime"] = stamp(from), stamp(to)
		records = append(records, record)
	})
	e.mu.Unlock()
	c.json(http.StatusOK, map[string]any{"records": records, "metadata": map[string]any{
		"query": q.echo(), "recordCount": len(records), "totals": amounts(gpus, disks),
	}})
}
