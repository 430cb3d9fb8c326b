package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/draw"
)

func kubeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kube", Usage: "look at a stack on Kubernetes: `NAMESPACE[/[KIND/]NAME]`"},
		kubeContextFlag(),
		&cli.BoolFlag{Name: "print-role", Usage: "print the Role that --kube needs in its namespace"},
		&cli.StringSliceFlag{Name: "manifests", Usage: "with --print-role: print the Role of a plan that makes the objects of this `FILE` as well"},
		&cli.BoolFlag{Name: "print-deploy-role", Usage: "print the Role that backend.deploy of a plan needs in its namespace"},
		&cli.BoolFlag{Name: "print-load-role", Usage: "print the Role that load pods need in its namespace, beside that of --print-role"},
	}
}

// probeKube shows a stack that runs on Kubernetes.
func (a *app) probeKube(ctx context.Context, c *cli.Command) error {
	namespace, _, err := kubeName(c)
	if err != nil {
		return err
	}
	if c.Bool("print-load-role") {
		_, err := io.WriteString(a.out, clients.RoleYAML(plaintext.Line(namespace)))
		return err
	}
	if c.Bool("print-deploy-role") {
		_, err := io.WriteString(a.out, stack.DeployRoleYAML(plaintext.Line(namespace)))
		return err
	}
	if c.IsSet("manifests") && !c.Bool("print-role") {
		return &usage{errors.New("--manifests: want --print-role too")}
	}
	if names := c.StringSlice("manifests"); len(names) > 0 {
		return a.printManifestsRole(plaintext.Line(namespace), names)
	}
	if c.Bool("print-role") {
		_, err := io.WriteString(a.out, stack.RoleYAML(plaintext.Line(namespace)))
		return err
	}
	_, s, err := a.kubeStack(ctx, c)
	if err != nil {
		return err
	}
	off := metricsOff(s)
	if c.Bool("json") {
		return a.json().Encode(struct {
			*stack.Stack
			Off []string `json:"metrics_off"`
		}{s, off})
	}
	page := a.page()
	printStack(page, s, off, c.Bool("verbose"))
	return page.Err()
}

// metricsOff returns the containers that have metrics of their own with a flag alone, and do not
// show them. A stack is as good without.
func metricsOff(s *stack.Stack) []string {
	all := []string{}
	p, known := engine.Lookup(engineOfStack[s.Kind])
	if !known {
		return all
	}
	for i := range s.Roles {
		for j := range s.Roles[i].Pods {
			for _, c := range s.Roles[i].Pods[j].Containers {
				role := p.Logs.Containers[c.Name]
				if role == "" || c.Main {
					continue
				}
				flag := p.MetricsOf(role).Flag
				if flag == "" || c.FlagPort(flag) > 0 {
					continue
				}
				text := fmt.Sprintf("%s: %s does not show its own metrics: it needs --%s=PORT, and a release that has it", s.Roles[i].Name, c.Name, flag)
				if !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
	}
	return all
}

// printManifestsRole prints the Role of a plan whose backend has these files.
func (a *app) printManifestsRole(namespace string, names []string) error {
	var files []manifest.File
	for _, name := range names {
		text, err := input.ReadFile(name, manifest.MaxBytes)
		if err != nil {
			return &usage{fmt.Errorf("--manifests: %w", err)}
		}
		files = append(files, manifest.File{Name: name, Text: text})
	}
	role, err := manifests.RoleYAML(namespace, files)
	if err != nil {
		return &usage{err}
	}
	_, err = io.WriteString(a.out, role)
	return err
}

// printStack writes a stack for people: where requests enter, which roles there are, then
// each pod, then what to look at, and whose metrics are off. With verbose it has arguments, digests and rights as well.
func printStack(page *draw.Document, s *stack.Stack, off []string, verbose bool) {
	kind := "stack"
	if s.Kind != "" {
		kind = s.Kind + " stack"
	}
	where := s.Server
	if s.Context != "" {
		where = "context " + s.Context + ", " + where
	}
	page.Text(fmt.Sprintf("%s %s/%s; Kubernetes %s, %s", kind, s.Namespace, s.Name, s.Kubernetes, where))
	for i, e := range s.Entries {
		label := ""
		if i == 0 {
			label = "entry"
		}
		text := cmp.Or(e.URL, "no address yet") + "   " + strings.Join(e.Via, " > ")
		if len(e.Needs) > 0 {
			text += "; needs " + strings.Join(e.Needs, ", ")
		}
		page.Labelled(cmp.Or(label, " "), text)
	}
	page.Blank()
	page.Grid(rolesGrid(s))
	page.Blank()
	page.Grid(podsGrid(s))
	if verbose {
		printContainers(page, s)
	}
	page.Blank()
	page.Section("look at", draw.Items(s.Findings))
	page.Section("metrics that are off", draw.Items(off))
	if verbose {
		printRights(page, s)
	}
}

func rolesGrid(s *stack.Stack) draw.Grid {
	g := draw.Grid{Down: "role", Values: []string{"ready", "container", "image", "ports", "accelerators"}}
	for i := range s.Roles {
		r := &s.Roles[i]
		row := []string{r.Name, fmt.Sprintf("%d/%d", r.Ready(), len(r.Pods)), "", "", "", ""}
		if c := r.Pods[0].Main(); c != nil {
			row[2], row[3], row[4], row[5] = c.Name, shortImage(c.Image), ports(c), c.GPUs
		}
		g.Rows = append(g.Rows, draw.Fields(row...))
		for _, c := range r.Pods[0].Containers {
			if !c.Main {
				g.Rows = append(g.Rows, draw.Fields("", "", c.Name, shortImage(c.Image), ports(&c), c.GPUs))
			}
		}
	}
	return g
}

func podsGrid(s *stack.Stack) draw.Grid {
	g := draw.Grid{Down: "pod", Values: []string{"role", "state", "restarts", "node", "address"}}
	for i := range s.Roles {
		for j := range s.Roles[i].Pods {
			p := &s.Roles[i].Pods[j]
			state := p.State
			if !p.Ready && state == "Running" {
				state = "not ready"
			}
			g.Rows = append(g.Rows, draw.Fields(p.Name, s.Roles[i].Name, state, strconv.Itoa(p.Restarts()), cmp.Or(p.Node, "none"), cmp.Or(p.IP, "none")))
		}
	}
	return g
}

// printContainers writes what each role was started with. Pods that are alike are
// written once.
func printContainers(page *draw.Document, s *stack.Stack) {
	for i := range s.Roles {
		r := &s.Roles[i]
		var before []string
		for j := range r.Pods {
			for _, c := range r.Pods[j].Containers {
				text := strings.Join(c.Line(), " ")
				this := c.Name + "\x00" + text + "\x00" + c.ImageID
				if slices.Contains(before, this) {
					continue
				}
				before = append(before, this)
				page.Blank()
				page.Rows(
					[]string{r.Name + " " + c.Name, cmp.Or(text, "no arguments of the manifest")},
					[]string{"image", cmp.Or(c.ImageID, c.Image)},
				)
			}
		}
	}
}

func printRights(page *draw.Document, s *stack.Stack) {
	var rows [][]string
	for _, h := range s.Rights {
		held := "yes"
		if !h.Held {
			held = "no"
		}
		rows = append(rows, []string{h.Verb + " " + kubeapi.Qualified(h.Group, h.Resource), held, "for " + h.For})
	}
	page.Rows(rows...)
	if len(s.APIs) > 0 {
		page.Rows([]string{"read", strings.Join(s.APIs, ", ")})
	}
}

// shortImage returns an image without its registry and folder, and with its tag.
func shortImage(image string) string {
	name, digest, pinned := strings.Cut(image, "@sha256:")
	name = path.Base(name)
	if pinned {
		name += "@" + digest[:min(len(digest), 12)]
	}
	return name
}

func ports(c *stack.Container) string {
	list := make([]string, len(c.Ports))
	for i, p := range c.Ports {
		list[i] = strconv.Itoa(p.Number)
	}
	return strings.Join(list, " ")
}
