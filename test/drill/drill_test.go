//go:build drill

package drill

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "what the choice of scenarios and the emulator's dice begin with; 0 takes the clock")
	scenarioFlag = flag.String("scenario", "", "run this scenario alone")
	fullFlag     = flag.Bool("full", false, "run everything that fits, what was never run first")
	timeFlag     = flag.Duration("duration", 45*time.Second, "begin no scenario after this time")
	workersFlag  = flag.Int("workers", 3, "scenarios at once; most of them wait")
	seenFlag     = flag.String("seen", "", "file that remembers which scenarios were run")
	programFlag  = flag.String("program", "", "sweep itself; \"\" builds it")
	keepFlag     = flag.Bool("keep", false, "keep the files of scenarios that passed too")
)

func TestMain(m *testing.M) {
	guard.Main() // the emulator's pods are processes
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // an error changes nothing: what is left is not read
	}
	os.Exit(code)
}

var built string // the folder that program has made

// program builds sweep once.
var program = sync.OnceValues(func() (string, error) {
	if *programFlag != "" {
		return filepath.Abs(*programFlag)
	}
	dir, err := os.MkdirTemp("", "drill-program")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "sweep")
	out, err := exec.Command("go", "build", "-o", path, "sweep.dev/sweep/cmd/sweep").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// A tally is what a drill has come to.
type tally struct {
	mu        sync.Mutex
	scenarios int
	failed    int
	kills     int
	faults    int // of the emulator, that happened and did no harm
	usd       float64
	points    map[string]bool
	seen      map[string]int
}

// TestDrill plays scenarios until the time is over and prints what they came to.
func TestDrill(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	total := &tally{points: map[string]bool{}, seen: recall(t)}
	list := order(seed, !*fullFlag, total.seen)
	least := len(classes()) // of a quick drill, whatever the time
	if *fullFlag {
		least = 0
	}
	if *scenarioFlag != "" {
		s, err := parseScenario(*scenarioFlag)
		if err != nil {
			t.Fatal(err)
		}
		list, least = []scenario{s}, 1
	}
	end := time.Now().Add(*timeFlag)
	next := make(chan scenario)
	var all sync.WaitGroup
	for range *workersFlag {
		all.Go(func() {
			for s := range next {
				play(t, s, seed, total)
			}
		})
	}
	for i, s := range list {
		if i >= least && time.Now().After(end) {
			break
		}
		next <- s
	}
	close(next)
	all.Wait()
	remember(t, total.seen)

	var named, missing []string
	for _, p := range effect.Points() {
		if !reached(p) {
			continue
		}
		for _, phase := range phases() {
			at := fmt.Sprintf("%s:%s", p, phase)
			named = append(named, at)
			if !total.points[at] {
				missing = append(missing, at)
			}
		}
	}
	if *fullFlag {
		fmt.Printf("never killed at: %s\n", strings.Join(missing, " "))
		for _, p := range slices.Sorted(maps.Keys(none())) {
			fmt.Printf("no run comes to %s: %s\n", p, none()[p])
		}
	}
	fmt.Printf("scenarios %d, kills %d, faults survived %d, points reached %d of %d, bill $%.4f, seed %d\n",
		total.scenarios, total.kills, total.faults, len(named)-len(missing), len(named), total.usd, seed)
	goleak.VerifyNone(t)
}

// play plays one scenario in a folder of its own, which is kept where it fails.
func play(t *testing.T, s scenario, seed uint64, total *tally) {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Error(err)
		return
	}
	dir, err := os.MkdirTemp("", "drill-") //nolint:usetesting // it is kept where the scenario fails
	if err != nil {
		t.Error(err)
		return
	}
	began := time.Now()
	w, err := newWorld(t.Context(), bin, dir, s, seed, nil)
	if err != nil {
		t.Errorf("%s: %v", s, err)
		return
	}
	w.play()
	audit := w.Audit()
	var requests strings.Builder
	for _, ev := range w.Events() {
		fmt.Fprintf(&requests, "%s %v\n", ev.Received.UTC().Format("15:04:05.000"), ev)
	}
	if err := w.Close(); err != nil {
		w.fault("emulator: %v", err)
	}

	total.mu.Lock()
	defer total.mu.Unlock()
	total.scenarios++
	total.kills += w.killed
	total.usd += audit.USD
	for _, n := range audit.Fired {
		total.faults += n
	}
	for _, at := range w.points {
		rule, _, _ := strings.Cut(at, "@")
		total.points[rule] = true
	}
	total.seen[s.String()]++
	verdict := "ok  "
	if len(w.problems) > 0 {
		verdict = "FAIL"
		total.failed++
	}
	fmt.Printf("%s %5.1fs %d kills, %d pods, $%.6f  %s\n", verdict, time.Since(began).Seconds(), w.killed, len(audit.Pods), audit.USD, s)
	if len(w.problems) == 0 && !*keepFlag {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		return
	}
	w.log.WriteString("\nrequests:\n" + requests.String() + "\nproblems:\n" + strings.Join(w.problems, "\n") + "\n")
	if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte(w.log.String()), 0o600); err != nil {
		t.Error(err)
	}
	for _, p := range w.problems {
		t.Errorf("SEED=%d SCENARIO='%s': %s\n\tfiles: %s\n\tagain: go test -tags drill ./drill -run 'TestDrill$' -seed %d -scenario '%s'",
			seed, s, strings.ReplaceAll(p, "\n", "; "), dir, seed, s)
	}
}

// recall reads which scenarios were run before.
func recall(t *testing.T) map[string]int {
	t.Helper()
	seen := map[string]int{}
	if *seenFlag == "" {
		return seen
	}
	b, err := os.ReadFile(*seenFlag)
	if err == nil {
		err = json.Unmarshal(b, &seen)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return seen
}

func remember(t *testing.T, seen map[string]int) {
	t.Helper()
	if *seenFlag == "" {
		return
	}
	b, err := json.MarshalIndent(seen, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(*seenFlag), 0o755)
	}
	if err == nil {
		err = os.WriteFile(*seenFlag, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
