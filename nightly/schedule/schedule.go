// Package schedule makes the files with which the scheduler of a platform measures a plan
// every night: systemd's timers, cron, GitHub, or CronJobs of Kubernetes. sweep has no
// scheduler of its own.
package schedule

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"sweep.dev/sweep/internal/plaintext"
)

//go:embed templates
var templates embed.FS

// Targets returns the schedulers there are.
func Targets() []string { return []string{"systemd", "cron", "github", Kubernetes} }

// A Night is what is done every night.
type Night struct {
	Name    string        // of the plan
	Plan    string        // its file, absolute
	Dir     string        // where runs/ and the history are, absolute
	Exe     string        // sweep, absolute
	Out     string        // where the files will lie, absolute
	History string        // file, relative to Dir or absolute
	At      string        // HH:MM
	MaxTime time.Duration // of the measuring
	MaxCost float64       // USD; 0 is the plan's budget alone
	Keep    int           // runs
	Notify  string        // a command, with three further arguments; "" for none
	Flags   []string      // further ones of sweep run

	Cluster *Cluster // of the target Kubernetes alone
}

// A File is one of those that are made.
type File struct {
	Name string
	Text string
}

// grace is what a run has to give everything back once it is told to end.
const grace = 15 * time.Minute

// view is a night as templates have it.
type view struct {
	Night
	Hour, Minute     string
	Script, GC, Lock string
	RelPlan          string
	LimitS, GraceS   int
	StopS, StopM     int
	Grace            time.Duration
}

var clock = regexp.MustCompile(`^([01]?\d|2[0-3]):([0-5]\d)$`)

// Files returns those of a night for one of [Targets].
func Files(target string, n Night) ([]File, error) {
	at := clock.FindStringSubmatch(n.At)
	if at == nil {
		return nil, fmt.Errorf("%q is no time of day: want HH:MM, such as 02:30", n.At)
	}
	for _, path := range append([]string{n.Plan, n.Dir, n.Exe, n.Out, n.History, n.Notify}, n.Flags...) {
		if strings.ContainsAny(path, "\n\r\x00") {
			return nil, fmt.Errorf("%q has a line break, which no scheduler can be told", path)
		}
	}
	v := view{Night: n, Hour: fmt.Sprintf("%02s", at[1]), Minute: at[2], Grace: grace}
	v.Script, v.GC, v.Lock = filepath.Join(n.Out, "sweep-"+n.Name+".sh"), filepath.Join(n.Out, "sweep-gc.sh"), filepath.Join(n.Dir, ".sweep-"+n.Name+".lock")
	v.RelPlan = n.Plan
	if rel, err := filepath.Rel(n.Dir, n.Plan); err == nil && filepath.IsLocal(rel) {
		v.RelPlan = rel
	}
	limit := n.MaxTime + grace // launches and the teardown come on top of the measuring
	v.LimitS, v.GraceS = int(limit.Seconds()), int(grace.Seconds())
	stop := limit + 2*grace
	v.StopS, v.StopM = int(stop.Seconds()), int(stop.Minutes())
	night, gc := "sweep-"+n.Name, "sweep-gc"
	list := map[string][][2]string{
		"systemd": {
			{"night.sh", night + ".sh"},
			{"night.service", night + ".service"},
			{"night.timer", night + ".timer"},
			{"gc.sh", gc + ".sh"},
			{"gc.service", gc + ".service"},
			{"gc.timer", gc + ".timer"},
		},
		"cron":   {{"night.sh", night + ".sh"}, {"gc.sh", gc + ".sh"}, {"crontab", night + ".crontab"}},
		"github": {{"workflow.yml", night + ".yml"}},
	}
	if !slices.Contains(Targets(), target) {
		return nil, fmt.Errorf("%q is no target: want one of %s", target, strings.Join(Targets(), ", "))
	}
	if target == Kubernetes {
		text, err := manifests(v, n.Cluster)
		return []File{{night + ".yaml", text}}, err
	}
	var files []File
	for _, m := range list[target] {
		text, err := render(m[0], v)
		if err != nil {
			return nil, err
		}
		files = append(files, File{m[1], text})
	}
	return files, nil
}

// Install returns the command that tells the scheduler of the files, once they are written.
func Install(target string, n Night) string {
	file := func(end string) string { return plaintext.Word(filepath.Join(n.Out, "sweep-"+n.Name+end)) }
	switch target {
	case "systemd":
		return fmt.Sprintf("systemctl --user daemon-reload && systemctl --user enable --now sweep-%s.timer sweep-gc.timer", n.Name)
	case "cron":
		return fmt.Sprintf("(crontab -l; cat %s) | crontab -", file(".crontab"))
	}
	if target == Kubernetes {
		return "kubectl apply --server-side -f " + file(".yaml")
	}
	return "git add " + file(".yml")
}

func render(name string, v any) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"sh": plaintext.Word, "unit": unit, "exec": execWord, "cron": cronWord, "yaml": scalar, "indented": indented,
	}).ParseFS(templates, "templates/"+name)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}

// unit returns a text of a unit file, in which % begins a specifier (systemd.unit(5)).
func unit(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// execWord returns one word of ExecStart (systemd.service(5), Command lines).
func execWord(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s)
	return `"` + s + `"`
}

// cronWord returns a word of the shell in a crontab, where % is a line break (crontab(5)).
func cronWord(s string) string { return strings.ReplaceAll(plaintext.Word(s), "%", `\%`) }
