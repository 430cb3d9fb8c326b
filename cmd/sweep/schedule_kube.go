package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/nightly/schedule"
	"sweep.dev/sweep/plan"
)

// engineFolder is where the files of --engine-file are, in the folder of a night's plan.
const engineFolder = "engine-files/"

// clusterFlags returns those of the target Kubernetes.
func clusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "namespace", Usage: "kubernetes: the `NAMESPACE` of the nights, which must be there", Value: "sweep"},
		&cli.StringFlag{Name: "image", Usage: "kubernetes: the `IMAGE` of sweep, which is not that of an engine"},
		&cli.StringFlag{Name: "pool", Usage: "kubernetes: of all nights in the namespace that name the `POOL` of GPUs, one is at work at any time", DefaultText: "no lock"},
		waitFlag(),
		&cli.StringFlag{Name: "queue", Usage: "kubernetes: the local `QUEUE` of Kueue that admits the nights"},
		&cli.StringFlag{Name: "storage", Usage: "kubernetes: the `SIZE` of the volume for runs and the history", Value: "10Gi"},
		&cli.StringFlag{Name: "storage-class", Usage: "kubernetes: the `CLASS` of the volume", DefaultText: "the cluster's"},
	}
}

// cluster returns what a night in a cluster needs: the files that it reads, and the rights of
// its backend.
func (a *app) cluster(c *cli.Command, path string, p *plan.Plan, made *plugins) (*schedule.Cluster, error) {
	k := &schedule.Cluster{
		Namespace: c.String("namespace"), Image: c.String("image"), Pool: c.String("pool"), Wait: c.Duration("wait"),
		Queue: c.String("queue"), Storage: c.String("storage"), StorageClass: c.String("storage-class"),
	}
	k.Files = []schedule.Source{{Path: filepath.Base(path), Data: p.Source()}}
	for _, ref := range namedFiles(p) {
		file := ref
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), ref)
		}
		if err := include(k, filepath.ToSlash(ref), file); err != nil {
			return nil, err
		}
	}
	names := mounted(c.StringSlice("engine-file"))
	for _, file := range slices.Sorted(maps.Keys(names)) {
		if err := include(k, names[file], file); err != nil {
			return nil, err
		}
	}
	tenant, ok := made.backend.(backends.Tenant)
	if !ok {
		return k, nil
	}
	g, err := tenant.Grant()
	if err != nil {
		return nil, &usage{fmt.Errorf("a night in a cluster: %w", err)}
	}
	role := schedule.Role{Namespace: g.Namespace}
	for _, r := range g.Rules {
		role.Rules = append(role.Rules, schedule.Rule{Group: r.Group, Resources: r.Resources, Verbs: r.Verbs})
	}
	k.Roles = []schedule.Role{role}
	if made.factory.LoadPods {
		k.Roles = append(k.Roles, loadRoles(p, g.Namespace)...)
	}
	return k, nil
}

// loadRoles returns what it takes to make the load pods of a plan, in each of their namespaces.
func loadRoles(p *plan.Plan, namespace string) (all []schedule.Role) {
	for _, l := range p.EachLoad() {
		in := cmp.Or(l.Load.Clients.Namespace, namespace)
		known := slices.ContainsFunc(all, func(r schedule.Role) bool { return r.Namespace == in })
		if l.Load.Clients.Kind != plan.ClientsKubernetes || known {
			continue
		}
		role := schedule.Role{Namespace: in}
		for _, r := range clients.Rights() {
			role.Rules = append(role.Rules, schedule.Rule{Group: r.Group, Resources: []string{r.Resource}, Verbs: []string{r.Verb}})
		}
		all = append(all, role)
	}
	return all
}

// mounted returns where each engine file is in the folder of the plan. Files of one name in
// several folders get a number.
func mounted(files []string) map[string]string {
	names, taken := map[string]string{}, map[string]bool{}
	for _, file := range files {
		if names[file] != "" {
			continue
		}
		base := filepath.Base(file)
		name := engineFolder + base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s%d-%s", engineFolder, n, base)
		}
		names[file], taken[name] = name, true
	}
	return names
}

// include adds a file to those of a night, unless it is there already.
func include(k *schedule.Cluster, path, file string) error {
	if slices.ContainsFunc(k.Files, func(f schedule.Source) bool { return f.Path == path }) {
		return nil
	}
	data, err := input.ReadFile(file, schedule.MaxFiles)
	if err != nil {
		return &usage{fmt.Errorf("a night in a cluster has its files in a ConfigMap, of %d bytes in all: %w", schedule.MaxFiles, err)}
	}
	k.Files = append(k.Files, schedule.Source{Path: path, Data: data})
	return nil
}

// namedFiles returns the files that a plan reads, as it names them.
func namedFiles(p *plan.Plan) []string {
	refs := slices.Clone(p.EngineFiles)
	for _, m := range p.Manifests() {
		refs = append(refs, m.Name)
	}
	if p.Quality != nil {
		refs = append(refs, p.Quality.Refs()...)
	}
	for _, load := range p.EachLoad() {
		if load.Trace != nil {
			refs = append(refs, load.Trace.FileRef)
		}
		refs = append(refs, load.Prompts.FileRef, load.Prompts.PairsRef)
	}
	return slices.DeleteFunc(refs, func(ref string) bool { return ref == "" })
}
