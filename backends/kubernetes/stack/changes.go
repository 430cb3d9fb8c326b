package stack

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
)

// Changes returns in what the pods of a stack differ from those that were seen before: pods
// that went, came, were replaced or got another role, containers that were started again, and
// pods that began or ceased to take requests. Each is a clause that names the role and the pod.
func Changes(before, after *Stack) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	now, roles := podsByUID(after), rolesByUID(after)
	for i := range before.Roles {
		role := before.Roles[i].Name
		for j := range before.Roles[i].Pods {
			was := &before.Roles[i].Pods[j]
			is := now[was.UID]
			if is == nil {
				add("%s: pod %s is gone", role, was.Name)
				continue
			}
			if to := roles[was.UID]; !slices.Contains(to, role) {
				add("%s: pod %s is of role %s now", role, is.Name, strings.Join(to, " and "))
			}
			for k := range is.Containers {
				restartedSince(role, was, is, &is.Containers[k], add)
			}
			switch {
			case was.Ready && !is.Ready:
				add("%s: pod %s is not ready any more (%s)", role, is.Name, is.State)
			case is.Ready && !was.Ready:
				add("%s: pod %s became ready", role, is.Name)
			}
		}
	}
	was := podsByUID(before)
	for i := range after.Roles {
		role := &after.Roles[i]
		for j := range role.Pods {
			p := &role.Pods[j]
			if was[p.UID] != nil {
				continue
			}
			rollout := ""
			if old := revisions(before, role.Name); p.Revision != "" && len(old) > 0 && !slices.Contains(old, p.Revision) {
				rollout = fmt.Sprintf(", of revision %s after %s: a rollout", p.Revision, strings.Join(old, ", "))
			}
			add("%s: pod %s is new%s", role.Name, p.Name, rollout)
		}
	}
	return all
}

func restartedSince(role string, was, is *Pod, c *Container, add func(string, ...any)) {
	i := slices.IndexFunc(was.Containers, func(before Container) bool { return before.Name == c.Name })
	if i < 0 || c.Restarts <= was.Containers[i].Restarts {
		return
	}
	why := ""
	if c.LastEnd != "" {
		why = " (last end: " + c.LastEnd + ")"
	}
	add("%s: container %s of %s was restarted %s%s", role, c.Name, is.Name, humanize.Plural(c.Restarts-was.Containers[i].Restarts, "time"), why)
}

func podsByUID(s *Stack) map[string]*Pod {
	all := map[string]*Pod{}
	for _, p := range s.Pods() {
		all[p.UID] = p
	}
	return all
}

// rolesByUID returns the roles of each pod.
func rolesByUID(s *Stack) map[string][]string {
	all := map[string][]string{}
	for i := range s.Roles {
		for j := range s.Roles[i].Pods {
			uid := s.Roles[i].Pods[j].UID
			all[uid] = append(all[uid], s.Roles[i].Name)
		}
	}
	return all
}

// revisions returns those of the pods of a role.
func revisions(s *Stack, role string) (all []string) {
	for i := range s.Roles {
		for j := range s.Roles[i].Pods {
			if r := s.Roles[i].Pods[j].Revision; s.Roles[i].Name == role && r != "" {
				all = append(all, r)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
