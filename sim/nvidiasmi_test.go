package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

func TestNvidiaSMI(t *testing.T) {
	t.Parallel()
	in := start(t, "--tensor-parallel-size", "2", "--gpu", "l40s", "--gpu-memory-utilization", "0.5", "--time-scale", "0.2")
	get := func(query string) string {
		_, text := in.do("GET", "/sim/nvidia-smi?query="+query, "")
		return text
	}
	rows := strings.Split(strings.TrimSpace(get("index,name,memory.total,utilization.gpu,power.draw,pstate")), "\n")
	if len(rows) != 2 || rows[1] != "1, NVIDIA L40S, 46068, 0, 34.00, P8" {
		t.Errorf("idle: %q", rows)
	}
	uuids := strings.Split(strings.TrimSpace(get("uuid")), "\n")
	if !regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(uuids[0]) || uuids[0] == uuids[1] {
		t.Errorf("uuids: %q", uuids)
	}
	used, _ := strconv.Atoi(strings.Split(strings.TrimSpace(get("memory.used")), "\n")[0])
	if used < 20000 || used > 46068/2 {
		t.Errorf("%d MiB used with half of 46068 to use", used)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("two", `,"stream":true,"max_tokens":8000,"ignore_eos":true`)))
		if resp, err := in.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	defer wg.Wait()
	defer cancel()
	if !polltest.Within(polltest.Patience, func() bool {
		var util int
		var power float64
		_, err := fmt.Sscanf(get("utilization.gpu,power.draw"), "%d, %f", &util, &power)
		return err == nil && util > 90 && power > 50
	}) {
		t.Errorf("under load: %s", get("utilization.gpu,power.draw"))
	}
	_, text := in.do("GET", "/sim/nvidia-smi?query=index,memory.used&format=csv", "")
	if !strings.HasPrefix(text, "index, memory.used [MiB]\n0, "+strconv.Itoa(used)+" MiB\n") {
		t.Errorf("with header and units: %q", text)
	}
	if status, text := in.do("GET", "/sim/nvidia-smi?query=index,nonsense", ""); status != 400 || !strings.Contains(text, `Field "nonsense" is not a valid field to query.`) {
		t.Errorf("unknown field: %d %q", status, text)
	}
}

func TestNvidiaSMI_isNotThereOnAMD(t *testing.T) {
	in := start(t, "--gpu", "mi300x")
	if status, _ := in.do("GET", "/sim/nvidia-smi?query=index", ""); status != 404 {
		t.Errorf("status %d", status)
	}
}
