package runpodtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// TestMain_pod rents a pod from the program as a person would,
// asks its engine, and ends the provider with the pod still running.
func TestMain_pod(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "--provision", "0s", "--pull", "50ms",
		"--seed", strconv.Itoa(os.Getpid()), // for an id that no other emulator has
		"--stock", "NVIDIA L4=1", "--fault", "slow-provision=50ms,429=1")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.WaitDelay = 20 * time.Second
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var base, key string
	lines := bufio.NewScanner(out)
	for key == "" && lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		switch name {
		case "RUNPOD_API_BASE_URL":
			base = value
		case "RUNPOD_API_KEY":
			key = value
		}
	}
	request := func(method, url, key, body string) (int, map[string]any) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			return 0, nil
		}
		defer resp.Body.Close()
		var v map[string]any
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, nil
		}
		_ = json.Unmarshal(b, &v) // an empty body is none
		return resp.StatusCode, v
	}
	const pod = `{"name":"a","image":"vllm/vllm-openai:v0.29.0","args":"Qwen/Qwen2.5-1.5B-Instruct --host 0.0.0.0 --port 8000",
		"gpu":{"id":"NVIDIA L4","count":1},"ports":["8000/tcp"],"env":{"VLLM_API_KEY":"sk-test"}}`
	if status, _ := request("GET", base+"/v2/pods", key, ""); status != 429 {
		t.Errorf("the fault was not there: %d", status)
	}
	status, made := request("POST", base+"/v2/pods", key, pod)
	if status != 201 {
		t.Fatalf("a create: %d %v", status, made)
	}
	if status, v := request("POST", base+"/v2/pods", key, pod); status != 400 {
		t.Errorf("more than the stock: %d %v", status, v)
	}
	id := made["id"].(string)
	if !polltest.Within(polltest.Patience, func() bool {
		_, p := request("GET", base+"/v2/pods/"+id, key, "")
		runtime, _ := p["runtime"].(map[string]any)
		if runtime == nil {
			return false
		}
		public := runtime["ports"].([]any)[0].(map[string]any)["public"]
		status, models := request("GET", fmt.Sprintf("http://127.0.0.1:%v/v1/models", public), "sk-test", "")
		return status == 200 && models["data"] != nil
	}) {
		t.Error("the pod's engine never answered")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("its end: %v", err)
	}
	if left := procfs.With(map[string]string{"RUNPOD_POD_ID": id}); len(left) != 0 {
		t.Errorf("the pod's processes are left: %v", left)
	}
	for _, want := range []string{"POST /v2/pods 201 (a)", "1 pods in 2 creates", "1 ended with the emulator"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in:\n%s", want, said.String())
		}
	}
}

func TestMain_usage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"no fault is called":                     {"--fault", "no-such"},
		"is not GPU=N":                           {"--stock", "l4"},
		"unexpected arguments: x":                {"x"},
		"flag provided but not defined: -no-gpu": {"--no-gpu", "l4"},
	} {
		var said strings.Builder
		if code := Main(t.Context(), args, io.Discard, &said); code != 2 || !strings.Contains(said.String(), want) {
			t.Errorf("%v: exit %d, %s", args, code, said.String())
		}
	}
	var help strings.Builder
	if code := Main(t.Context(), []string{"--help"}, &help, io.Discard); code != 0 || !strings.Contains(help.String(), "create-500-but-creates") {
		t.Errorf("help: exit %d, %s", code, help.String())
	}
}
