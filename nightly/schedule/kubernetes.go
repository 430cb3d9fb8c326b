package schedule

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kubernetes is the target whose night is a CronJob.
const Kubernetes = "kubernetes"

// A Cluster is what of a night only a Kubernetes cluster is told.
type Cluster struct {
	Namespace    string
	Image        string // of sweep itself
	Pool         string // of GPUs that one night alone may use; "" is none
	Wait         time.Duration
	Queue        string // of Kueue; "" is none
	Storage      string // of the volume, as 10Gi
	StorageClass string // "" is the cluster's own
	Files        []Source
	// Roles are what the plan's backend needs, each in its namespace.
	Roles []Role
}

// A Source is a file that a night reads: the plan, which is the first, and those that it
// names.
type Source struct {
	Path string // relative to the plan's folder, with slashes
	Data []byte
}

// A Role is rights in a namespace.
type Role struct {
	Namespace string
	Rules     []Rule
}

// A Rule permits every verb on every resource, or on those that have one of some names.
type Rule struct {
	Group     string   `json:"-"`
	Groups    []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Names     []string `json:"resourceNames,omitempty"`
	Verbs     []string `json:"verbs"`
}

// PlanFolder is the folder of a night's pod with the files of its ConfigMap.
const PlanFolder = "/plan"

// MaxFiles bounds the plan and the files that it names, in bytes: they are the data of a
// ConfigMap (ConfigMap v1 core).
const MaxFiles = 1 << 20

// clusterView is a night as the template of a cluster has it.
type clusterView struct {
	view
	Cluster
	Object    string // the name of most objects
	Lease     string // of the pool
	Account   bool   // a pod speaks to the API
	Asks      bool   // so does the one of gc: what nights leave is in this namespace
	Roles     []boundRole
	Config    string // the ConfigMap's name
	Items     []item
	Args      []string
	Cron      string
	Deadline  int // s, of the Job
	PlanLabel string
}

// A boundRole is a Role with its own name.
type boundRole struct {
	Name string
	Role
}

// An item is a file as the ConfigMap has it: as Text if that stands in YAML as it is, else
// as Base64.
type item struct {
	Key, Path    string
	Text, Base64 string
}

// Binary reports whether a file is one that is no text.
func (w clusterView) Binary() bool {
	return slices.ContainsFunc(w.Items, func(i item) bool { return i.Text == "" })
}

var (
	dnsLabel    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dnsName     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	quantity    = regexp.MustCompile(`^[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$`)
	configKey   = regexp.MustCompile(`[^-._a-zA-Z0-9]`)
	labelValue  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	notInObject = regexp.MustCompile(`[^a-z0-9]+`)
)

// maxObject bounds the name of the CronJob: a Job has 11 characters more, and a pod 63.
const maxObject = 52

// Object returns the name that the objects of a plan's nights have in a cluster.
func Object(plan string) string {
	name := "sweep-" + strings.Trim(notInObject.ReplaceAllString(plan, "-"), "-")
	if name == "sweep-"+plan && len(name) <= maxObject {
		return name
	}
	// Another plan may come to the same name.
	return strings.TrimRight(name[:min(len(name), maxObject-7)], "-") + "-" + digest([]byte(plan))[:6]
}

// LeaseOf returns the name of the Lease of a pool.
func LeaseOf(pool string) string { return "sweep-pool-" + pool }

func digest(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }

// checkCluster finds everything of a cluster's settings that it would refuse.
func checkCluster(n Night, c *Cluster) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range []struct {
		flag, value string
		want        *regexp.Regexp
		optional    bool
	}{
		{"--namespace", c.Namespace, dnsLabel, false},
		{"--pool", c.Pool, dnsLabel, true},
		{"--queue", c.Queue, dnsLabel, true},
		{"--storage-class", c.StorageClass, dnsName, true},
	} {
		if !name.want.MatchString(name.value) && (name.value != "" || !name.optional) {
			bad("%s: %q is no name in Kubernetes: want small letters, digits and -", name.flag, name.value)
		}
	}
	if len(LeaseOf(c.Pool)) > 63 {
		bad("--pool: %q is too long: want %d characters at most", c.Pool, 63-len(LeaseOf("")))
	}
	if c.Image == "" || strings.ContainsFunc(c.Image, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		bad("--image: name the image of sweep, such as registry.example/sweep:0.1.0")
	}
	if !quantity.MatchString(c.Storage) {
		bad("--storage: %q is no size: want a number with Ki, Mi, Gi or Ti", c.Storage)
	}
	if n.Notify != "" {
		bad("--notify runs a command of the shell, and the image of sweep has none: use on_finish in the plan")
	}
	if filepath.Base(n.History) != n.History {
		bad("--history: %q: the history is in the volume: want a name without a folder", n.History)
	}
	return errors.Join(errs...)
}

// manifests returns the objects of a night as one stream of YAML.
func manifests(v view, c *Cluster) (string, error) {
	if c == nil {
		return "", errors.New("a night in a cluster wants its namespace and image")
	}
	if err := checkCluster(v.Night, c); err != nil {
		return "", err
	}
	items, sum, err := itemsOf(c.Files)
	if err != nil {
		return "", err
	}
	w := clusterView{view: v, Cluster: *c, Object: Object(v.Name), Items: items, PlanLabel: v.Name}
	if !labelValue.MatchString(v.Name) {
		w.PlanLabel = strings.TrimPrefix(w.Object, "sweep-")
	}
	w.Config = w.Object + "-" + sum[:8]
	if c.Pool != "" {
		w.Lease = LeaseOf(c.Pool)
	}
	w.Roles = rolesOf(w.Object, w.Lease, c)
	w.Account = len(w.Roles) > 0
	w.Asks = slices.ContainsFunc(c.Roles, func(r Role) bool { return r.Namespace == c.Namespace })
	w.Cron = v.Minute + " " + v.Hour + " * * *"
	w.Args = nightArgs(v.Night, c, items[0].Path)
	w.Deadline = int((c.wait() + v.MaxTime + v.Grace).Seconds())
	return render("kubernetes.yaml", w)
}

// wait returns how long a night waits for its pool.
func (c *Cluster) wait() time.Duration {
	if c.Pool == "" {
		return 0
	}
	return c.Wait
}

// nightArgs returns the command of a night's pod.
func nightArgs(n Night, c *Cluster, plan string) []string {
	args := []string{"night", "run", "--max-time", n.MaxTime.String(), "--keep", fmt.Sprint(n.Keep), "--history", n.History}
	if n.MaxCost > 0 {
		args = append(args, "--max-cost", fmt.Sprint(n.MaxCost))
	}
	if c.Pool != "" {
		args = append(args, "--pool", c.Namespace+"/"+LeaseOf(c.Pool), "--wait", c.Wait.String())
	}
	args = append(append(args, n.Flags...), PlanFolder+"/"+plan)
	for i, a := range args { // $(NAME) is replaced, $$ is $ (Container.args)
		args[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return args
}

// rolesOf returns what the account of a night may do: the backend's rights, and to hold the
// lock of the pool.
func rolesOf(object, lease string, c *Cluster) (list []boundRole) {
	roles := c.Roles
	if lease != "" {
		roles = append(slices.Clip(roles), Role{c.Namespace, []Rule{{
			Group: "coordination.k8s.io", Resources: []string{"leases"}, Names: []string{lease}, Verbs: []string{"get", "update"},
		}}})
	}
	at := map[string]int{}
	for _, r := range roles {
		i, known := at[r.Namespace]
		if !known {
			i = len(list)
			at[r.Namespace] = i
			list = append(list, boundRole{Name: object, Role: Role{Namespace: r.Namespace}})
			if r.Namespace != c.Namespace { // another one's night may have a Role there
				list[i].Name = object + "-" + digest([]byte(c.Namespace))[:6]
			}
		}
		for _, rule := range r.Rules {
			rule.Groups = []string{rule.Group}
			list[i].Rules = append(list[i].Rules, rule)
		}
	}
	return list
}

// itemsOf returns the entries of the ConfigMap, and a digest of all of them.
func itemsOf(files []Source) (items []item, sum string, err error) {
	if len(files) == 0 {
		return nil, "", errors.New("a night has a plan")
	}
	size, taken, h := 0, map[string]bool{}, sha256.New()
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || strings.ContainsFunc(f.Path, unicode.IsControl) {
			return nil, "", fmt.Errorf("%s: a night in a cluster has only files below the plan's folder: put it there, and name it relative to the plan", f.Path)
		}
		size += len(f.Data)
		key := configKey.ReplaceAllString(f.Path, "_")
		for n := 2; taken[key]; n++ {
			key = fmt.Sprintf("%s_%d", configKey.ReplaceAllString(f.Path, "_"), n)
		}
		taken[key] = true
		i := item{Key: key, Path: f.Path}
		if plain(f.Data) {
			i.Text = string(f.Data)
		} else {
			i.Base64 = base64.StdEncoding.EncodeToString(f.Data)
		}
		items = append(items, i)
		fmt.Fprintf(h, "%q %d\n%s", f.Path, len(f.Data), f.Data)
	}
	if size > MaxFiles {
		return nil, "", fmt.Errorf("the plan and the files that it names have %d bytes, and a ConfigMap holds %d: use a smaller file, or synthetic prompts", size, MaxFiles)
	}
	return items, hex.EncodeToString(h.Sum(nil)), nil
}

// plain reports whether a text stands in a block of YAML as it is: it is printable, ends with
// one line break, and no line is taken for indentation or loses its end.
func plain(b []byte) bool {
	if !utf8.Valid(b) || len(b) < 2 || b[len(b)-1] != '\n' || b[len(b)-2] == '\n' {
		return false
	}
	first, _, _ := strings.Cut(string(b), "\n")
	if first == "" || strings.HasPrefix(first, " ") {
		return false
	}
	return !strings.ContainsFunc(string(b), func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r)
	})
}

// scalar returns a value in YAML, which has that of JSON.
func scalar(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// indented indents a text under its key.
func indented(by int, s string) string {
	pad := strings.Repeat(" ", by)
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = pad + l
		}
	}
	return strings.Join(lines, "\n")
}
