// Package layout names the files of a run directory. It opens none of them.
//
//	run.lock, .ballast                    of package rundir alone
//	plan.yaml, plan.resolved.json         what is run
//	rehearsal.json                        what the simulator predicted, if it was asked
//	calibration.json                      what the client adds to what it measures
//	journal.jsonl                         what has happened
//	progress.json                         how far trials are; only while they are measured
//	cells/CELL/t01/a01/                   a trial's attempt
//	    result.json                       its outcome, with the digests of the others
//	    requests.parquet, samples.parquet
//	    engine.log, routing.json
//	    logs/ROLE.POD.CONTAINER.log       of servers that were found
//	    scrapes/server-0.prom.zst         what a server or a GPU's tool said
//	deployments/DEPLOYMENT/l01/           a launch
//	    launch.json
//	    server-0.log                      of each replica
//	    pull.log, metrics-server.txt
//	    quality.jsonl                     what it answered to the plan's quality prompts
//	cells.csv ... answer.json             made of the committed attempts, at any time
//	metrics-ENGINE.log
package layout

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Files of the directory itself.
const (
	Lock        = "run.lock"
	Plan        = "plan.yaml"          // as given
	Resolved    = "plan.resolved.json" // defaults filled in, secrets as references
	Journal     = "journal.jsonl"
	Rehearsal   = "rehearsal.json"   // what the simulator predicted; absent if it was not asked
	Calibration = "calibration.json" // absent if the client was not calibrated
	Progress    = "progress.json"    // only while it runs: of the trials that are measured
	Reserved    = ".ballast"         // space for the last lines of a run on a full disk
)

// Folders of the directory.
const (
	Cells       = "cells"
	Deployments = "deployments"
)

// Files of an attempt.
const (
	Result    = "result.json"
	Requests  = "requests.parquet" // the directory has one of all attempts too
	Samples   = "samples.parquet"  // "
	Routing   = "routing.json"
	EngineLog = "engine.log"
)

// Files of a launch.
const (
	Launch  = "launch.json" // what was started
	PullLog = "pull.log"    // of images

	Quality = "quality.jsonl" // answers to the plan's quality prompts, of one launch of a deployment
)

// Tables of the committed attempts, and the summary.
const (
	CellsCSV      = "cells.csv"
	CellsParquet  = "cells.parquet"
	GroupsCSV     = "groups.csv"
	GroupsParquet = "groups.parquet"
	Summary       = "summary.md"
	Answer        = "answer.json" // what summary.md concludes, as data

	ComparisonCSV     = "comparison.csv" // of a plan that compares by turns
	ComparisonParquet = "comparison.parquet"
	CapacityCSV       = "capacity.csv" // of a plan that searches for the greatest load
	CapacityParquet   = "capacity.parquet"

	QualityCSV          = "quality.csv" // deployments against their baseline, of a plan with quality.baseline
	QualityParquet      = "quality.parquet"
	QualityItemsCSV     = "quality_items.csv" // each prompt of each deployment, of a plan with quality
	QualityItemsParquet = "quality_items.parquet"
)

// Derived lists the tables that a run may have and the summary and the answer, which it always
// has, in the order in which they are named to people.
func Derived() []string {
	return []string{
		CellsCSV, CellsParquet, GroupsCSV, GroupsParquet, Requests, Samples, ComparisonCSV, ComparisonParquet, CapacityCSV, CapacityParquet,
		QualityCSV, QualityParquet, QualityItemsCSV, QualityItemsParquet, Summary, Answer,
	}
}

// Own reports whether a name in the directory belongs to the run itself: nothing
// derived may have it.
func Own(name string) bool {
	switch name {
	case Lock, Plan, Resolved, Rehearsal, Calibration, Progress, Journal, Cells, Deployments:
		return true
	}
	return false
}

// Patterns of [io/fs.Glob] over the directory.
const (
	AnyAttempt    = Cells + "/*/t*/a*" // temporary ones too
	AnyLaunch     = Deployments + "/*/l*"
	AnyQuality    = AnyLaunch + "/" + Quality
	AnyServerLog  = AnyLaunch + "/*" + logSuffix
	AnyMetricsLog = metricsPrefix + "*" + logSuffix
)

const (
	logSuffix     = ".log"
	metricsPrefix = "metrics-"
	scrapes       = "scrapes/"
	foundLogs     = "logs/"
	scrapeSuffix  = ".prom.zst"
)

// merging is of a directory that is being made of others. A crash may leave one.
const merging = ".merging-"

// Merging returns the name of a directory until all of it is there.
func Merging(name string) string { return merging + name }

// IsMerging reports whether a directory has such a name.
func IsMerging(name string) bool { return strings.HasPrefix(name, merging) }

// Pod returns the name of what a launch starts: a pod, a container, a group of processes.
func Pod(deployment string, launch int) string { return deployment + "-" + number("l", launch) }

// TrialDir returns the folder of a trial.
func TrialDir(cell string, trial int) string { return path.Join(Cells, cell, Trial(trial)) }

// AttemptDir returns the folder of an attempt.
func AttemptDir(cell string, trial, attempt int) string {
	return path.Join(TrialDir(cell, trial), Attempt(attempt))
}

// LaunchDir returns the folder of a launch.
func LaunchDir(deployment string, launch int) string {
	return path.Join(Deployments, deployment, number("l", launch))
}

// Trial returns the name of a trial: t01.
func Trial(n int) string { return number("t", n) }

// Attempt returns the name of an attempt: a01.
func Attempt(n int) string { return number("a", n) }

func number(kind string, n int) string { return fmt.Sprintf("%s%02d", kind, n) }

// ParseTrial reads the number of a trial's folder: t01.
func ParseTrial(name string) (int, bool) { return parse("t", name) }

// ParseAttempt reads the number of an attempt's folder: a01.
func ParseAttempt(name string) (int, bool) { return parse("a", name) }

// ParseLaunch reads the number of a launch's folder: l01.
func ParseLaunch(name string) (int, bool) { return parse("l", name) }

var digits = regexp.MustCompile(`^[0-9]{2,9}$`)

func parse(kind, name string) (int, bool) {
	text, ok := strings.CutPrefix(name, kind)
	if !ok || !digits.MatchString(text) {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0
}

// ServerLog returns the log of a replica, in the folder of its launch.
func ServerLog(role string, replica int) string {
	return role + "-" + strconv.Itoa(replica) + logSuffix
}

// LastMetrics returns what a replica of a role with so many of them exposed last, in the
// folder of its launch.
func LastMetrics(role string, replica, replicas int) string {
	if replicas > 1 {
		role += "-" + strconv.Itoa(replica)
	}
	return metricsPrefix + role + ".txt"
}

// FoundLog returns the file of an attempt with the log of a container that was found.
func FoundLog(name string) string { return foundLogs + name }

// FoundLogs is a pattern of all of them.
const FoundLogs = foundLogs + "*" + logSuffix

// ServerLogs is a pattern of all of them.
const ServerLogs = "*" + logSuffix

// RequestLog returns where a simulated server with the log serverLog writes what it was
// asked.
func RequestLog(serverLog string) string {
	return strings.TrimSuffix(serverLog, logSuffix) + ".requests.jsonl"
}

// Scrape returns the file of an attempt with everything that the metrics of a replica
// said.
func Scrape(role string, replica int) string {
	return scrapes + role + "-" + strconv.Itoa(replica) + scrapeSuffix
}

// Scrapes is a pattern of all of them.
const Scrapes = scrapes + "*" + scrapeSuffix

// Scraped says whose metrics a file of an attempt holds: server-0.
func Scraped(name string) (server string, ok bool) {
	name, ok = strings.CutPrefix(name, scrapes)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, scrapeSuffix)
}

// Scraper returns the server whose metrics the file at path holds.
func Scraper(file string) string { return strings.TrimSuffix(path.Base(file), scrapeSuffix) }

// Raw returns the file of an attempt with what a tool said of the hardware of a host.
func Raw(host, file string) string { return scrapes + host + "." + file }

// unfit is what no file name should have, whatever a plan calls its engine.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// MetricsLog returns the file of what the servers of an engine exposed.
func MetricsLog(engine string) string {
	return metricsPrefix + strings.Trim(unfit.ReplaceAllString(engine, "-"), ".-") + logSuffix
}
