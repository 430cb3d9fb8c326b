package main

import (
	"cmp"
	"fmt"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/load/shard"
	"sweep.dev/sweep/plan"
)

// A crew is how many clients a load needs, as far as a calibration can tell.
type crew struct {
	n     int    // to send it with; 1 if that is not known
	known bool   // the calibration tells it
	why   string // in words, for people
}

// crewOf returns the crew for so many chunks a second; found is nil if nothing is known of the
// client. path is of the plan, for the command that finds out.
func crewOf(found *calibrate.Result, chunks float64, pods bool, path string) crew {
	command := "sweep doctor calibrate " + plaintext.Word(path)
	if found == nil {
		return crew{1, false, "cannot tell how many clients it needs, as there is no calibration of this machine for its load: " + command}
	}
	if why := found.Disturbance(); why != "" {
		return crew{1, false, "cannot tell how many clients it needs, as the calibration was disturbed (" + why + "): " + command + " --fresh"}
	}
	need, ok := found.Clients(chunks)
	if !ok {
		return crew{1, false, fmt.Sprintf("cannot tell how many clients it needs: the calibration offered the client no more than %.0f chunks/s, and the load may have %.0f", found.Ceiling.Chunks, chunks)}
	}
	why := fmt.Sprintf("%s: up to %.0f chunks/s, and a client takes in %.0f, of which %.0f %% are safe", humanize.Plural(need, "client"), chunks, found.Ceiling.Chunks, 100*calibrate.SafeShare)
	most, of := shard.Most, "a load has"
	if here := found.MostClients(); !pods && here < most {
		most, of = here, "this machine has CPUs for"
	}
	if need > most {
		why += fmt.Sprintf("; %s %d at most, so cells that reach it are INVALID (client_ceiling)", of, most)
	}
	return crew{min(need, most), true, why}
}

// auto reports whether a load of a deployment leaves the number of its clients to the
// calibration, and whether those are pods.
func auto(d plan.Deployment) (auto, pods bool) {
	for _, c := range d.Cells {
		if c.Load.Clients.Auto() {
			auto, pods = true, pods || c.Load.Clients.Kind == plan.ClientsKubernetes
		}
	}
	return auto, pods
}

// someClients reports whether is holds for the clients of a load of some deployments.
func someClients(deployments []plan.Deployment, is func(plan.Clients) bool) bool {
	return slices.ContainsFunc(deployments, func(d plan.Deployment) bool {
		return slices.ContainsFunc(d.Cells, func(c plan.Cell) bool { return is(c.Load.Clients) })
	})
}

// crews returns how many clients each deployment of a job has that leaves it to the calibration.
// It says so, once for each number.
func (a *app) crews(j *job) func(plan.Deployment) int {
	numbers := map[string]int{}
	said := map[string]bool{}
	for _, d := range j.plan.Deployments() {
		leaves, pods := auto(d)
		if !leaves {
			continue
		}
		c := crewOf(j.calibration, demandOf([]plan.Deployment{d}, j.plugins.traits()).chunks, pods, cmp.Or(j.state.Manifest.PlanPath, "PLAN"))
		numbers[d.ID] = c.n
		text := "load.clients: auto: " + c.why
		switch {
		case j.calibration == nil: // as the run was told, so it needs no command
			text = "load.clients: auto: the client is not calibrated, so one client sends"
		case !c.known:
			text += "; one client sends"
		}
		if !said[text] {
			a.say("sweep: %s", text)
		}
		said[text] = true
	}
	return func(d plan.Deployment) int { return numbers[d.ID] }
}

// clientsText returns what sweep plan says of the clients of a plan that names them.
func (a *app) clientsText(p planned) string {
	if !someClients(p.deployments, func(c plan.Clients) bool { return c.N != 0 }) {
		return ""
	}
	want := demandOf(p.deployments, p.plugins.traits())
	pods := someClients(p.deployments, func(c plan.Clients) bool { return c.Kind == plan.ClientsKubernetes })
	found := a.calibrations().find(calibrate.ThisMachine(version()), want.Bounded())
	return "clients: " + crewOf(found, want.chunks, pods, p.path).why
}
