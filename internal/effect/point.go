package effect

import "strings"

// A Point names one place at which the program can die or an operation fail.
//
// The points of a file share their first word. A file that was made at
// "attempt.create" is written at "attempt.write" and fsynced at "attempt.sync";
// one that is written whole is also renamed at ".rename", and its folder
// fsynced at ".dirsync". A point that such a rule gives and the list below does
// not have is counted as an operation, but has no name.
type Point string

// Beginning a run.
const (
	LockCreate   Point = "lock.create"   // run.lock, if it does not exist yet
	LockTake     Point = "lock.take"     // flock on it
	LockWrite    Point = "lock.write"    // the holder's name in it
	RunMkdir     Point = "run.mkdir"     // the run directory itself, durable in its parent
	RunDirsync   Point = "run.dirsync"   // the run directory's own entries
	SetupCreate  Point = "setup.create"  // plan.yaml, plan.resolved.json and calibration.json, under a temporary name
	SetupWrite   Point = "setup.write"   // "
	SetupSync    Point = "setup.sync"    // "
	SetupRename  Point = "setup.rename"  // "
	SetupDirsync Point = "setup.dirsync" // "

	ReservedCreate Point = "reserved.create" // the space set aside for the last lines of a journal
	ReservedWrite  Point = "reserved.write"  // "
	ReservedRemove Point = "reserved.remove" // given back on the first full disk
)

// The journal: every line of it, from any writer.
const (
	JournalCreate   Point = "journal.create"   // the empty file
	JournalWrite    Point = "journal.write"    // one line, one write
	JournalSync     Point = "journal.sync"     // "
	JournalTruncate Point = "journal.truncate" // a torn tail is cut off: after a crash, or after a write that failed
)

// The journal again, by what the line says.
const (
	ManifestJournal Point = "manifest.journal" // the first line
	EventJournal    Point = "event.journal"    // what the executor tells
	LaunchJournal   Point = "launch.journal"   // a deployment is about to be launched
	BeginJournal    Point = "begin.journal"    // an attempt is about to be made
	CommitJournal   Point = "commit.journal"   // the line that commits a trial
	DiscardJournal  Point = "discard.journal"  // an attempt does not count
	AdoptJournal    Point = "adopt.journal"    // recovery: a renamed attempt without its commit line gets it
	LedgerIntent    Point = "ledger.intent"    // a pod may be made
	LedgerSent      Point = "ledger.sent"      // the request that makes it goes out next
	LedgerCreated   Point = "ledger.created"   // the provider has said its id
	LedgerReady     Point = "ledger.ready"     // its engine has answered
	LedgerKept      Point = "ledger.kept"      // it is left running on purpose
	LedgerStopped   Point = "ledger.stopped"   // a person has stopped it
	LedgerDraining  Point = "ledger.draining"  // nothing new is asked of it
	LedgerDelete    Point = "ledger.delete"    // the request that ends it goes out next
	LedgerGone      Point = "ledger.gone"      // it is seen to be gone
)

// The ledger of this machine, outside of run directories: one file for each pod.
const (
	PodLedgerMkdir   Point = "podledger.mkdir"   // the ledger's folder
	PodLedgerCreate  Point = "podledger.create"  // a pod's file, under a temporary name
	PodLedgerWrite   Point = "podledger.write"   // "
	PodLedgerSync    Point = "podledger.sync"    // "
	PodLedgerRename  Point = "podledger.rename"  // "
	PodLedgerDirsync Point = "podledger.dirsync" // "
	PodLedgerRemove  Point = "podledger.remove"  // the pod is gone
)

// Calls to providers.
const (
	RunpodCreate  Point = "runpod.create" // POST /pods
	RunpodDelete  Point = "runpod.delete" // DELETE /pods/{id}
	RunpodAction  Point = "runpod.action" // stop or start
	RunpodRead    Point = "runpod.read"   // everything that only looks
	DockerPull    Point = "docker.pull"
	DockerCreate  Point = "docker.create"
	DockerStart   Point = "docker.start"
	DockerStop    Point = "docker.stop"
	DockerRemove  Point = "docker.remove"
	DockerGroup   Point = "docker.group" // what the containers of a deployment share
	DockerUngroup Point = "docker.ungroup"
	DockerExec    Point = "docker.exec" // a process in a container: an engine, or a tool
	DockerRead    Point = "docker.read"
	KubeCreate    Point = "kube.create" // one object in a cluster
	KubeExtend    Point = "kube.extend" // the sign of life of what owns a launch's objects
	KubeDelete    Point = "kube.delete"
	KubeRead      Point = "kube.read"
	SSHDial       Point = "ssh.dial"
	SSHStart      Point = "ssh.start" // the engine, detached on the host
	SSHStop       Point = "ssh.stop"
	SSHRead       Point = "ssh.read"
	CommandCreate Point = "command.create" // a provider's program makes a unit
	CommandSent   Point = "command.sent"   // it has all of the request for that, and no answer was read
	CommandDelete Point = "command.delete"
	CommandRead   Point = "command.read"
	CommandKill   Point = "command.kill" // it takes too long, or is not needed any more
	AgentStart    Point = "agent.start"  // one of several servers of a pod
	AgentBeat     Point = "agent.beat"   // the heartbeat to a pod
	AgentEnd      Point = "agent.end"    // what a pod's own agent is told to do
)

// Files of launches, attempts and derived views.
const (
	LaunchMkdir Point = "launch.mkdir" // deployments/<id>/lNN, and the folders of its servers' files

	LaunchCreate  Point = "launch.create"  // launch.json or a server's file, under a temporary name
	LaunchWrite   Point = "launch.write"   // "
	LaunchSync    Point = "launch.sync"    // "
	LaunchRename  Point = "launch.rename"  // "
	LaunchDirsync Point = "launch.dirsync" // "

	LogCreate Point = "log.create" // the file that a server's output goes to

	AttemptMkdir   Point = "attempt.mkdir"   // the temporary folder, and those above it
	AttemptCreate  Point = "attempt.create"  // one file of the attempt
	AttemptWrite   Point = "attempt.write"   // "
	AttemptSync    Point = "attempt.sync"    // "
	AttemptDirsync Point = "attempt.dirsync" // the temporary folder before the rename, its parent after
	AttemptRename  Point = "attempt.rename"  // to the final name
	AttemptRemove  Point = "attempt.remove"  // a discarded attempt's files
	RecoverRemove  Point = "recover.remove"  // recovery: what a dead process left unfinished

	DeriveCreate  Point = "derive.create"  // a derived view, under a temporary name
	DeriveWrite   Point = "derive.write"   // "
	DeriveSync    Point = "derive.sync"    // "
	DeriveRename  Point = "derive.rename"  // "
	DeriveDirsync Point = "derive.dirsync" // "
)

// The history of nights, a file of the user's.
const (
	HistoryCreate   Point = "history.create"   // the file, if it does not exist yet
	HistoryTake     Point = "history.take"     // flock on it
	HistoryWrite    Point = "history.write"    // the lines of a night, one write
	HistorySync     Point = "history.sync"     // "
	HistoryTruncate Point = "history.truncate" // a torn tail is cut off
	HistoryDirsync  Point = "history.dirsync"  // a new file in its folder
)

// Runs that are made of others.
const (
	MergeRename  Point = "merge.rename"  // the whole directory, to its final name
	MergeDirsync Point = "merge.dirsync" // its folders before, the one that it is in after
	MergeRemove  Point = "merge.remove"  // what a merge left that did not come to its end
)

// Runs that are old.
const (
	PruneRename Point = "prune.rename" // out of sight
	PruneRemove Point = "prune.remove"
)

// Processes.
const (
	SpawnGuard  Point = "spawn.guard"  // the process that ends a server when sweep is gone
	SpawnServer Point = "spawn.server" // the server, by its guard
	SpawnTool   Point = "spawn.tool"   // a command that only looks (nvidia-smi)
	KillServer  Point = "kill.server"  // a signal to a server's group
	KillGuard   Point = "kill.guard"   // a signal to a guard
	KillTool    Point = "kill.tool"    // a signal to a command that only looks
)

// Points returns every point there is, in the order of the declarations above.
func Points() []Point {
	return []Point{
		LockCreate, LockTake, LockWrite, RunMkdir, RunDirsync,
		SetupCreate, SetupWrite, SetupSync, SetupRename, SetupDirsync,
		ReservedCreate, ReservedWrite, ReservedRemove,
		JournalCreate, JournalWrite, JournalSync, JournalTruncate,
		ManifestJournal, EventJournal, LaunchJournal, BeginJournal,
		CommitJournal, DiscardJournal, AdoptJournal,
		LedgerIntent, LedgerSent, LedgerCreated, LedgerReady, LedgerKept, LedgerStopped,
		LedgerDraining, LedgerDelete, LedgerGone,
		PodLedgerMkdir, PodLedgerCreate, PodLedgerWrite, PodLedgerSync, PodLedgerRename, PodLedgerDirsync, PodLedgerRemove,
		RunpodCreate, RunpodDelete, RunpodAction, RunpodRead,
		DockerPull, DockerCreate, DockerStart, DockerStop, DockerRemove, DockerGroup, DockerUngroup, DockerExec, DockerRead,
		KubeCreate, KubeExtend, KubeDelete, KubeRead,
		SSHDial, SSHStart, SSHStop, SSHRead,
		CommandCreate, CommandSent, CommandDelete, CommandRead, CommandKill, AgentStart, AgentBeat, AgentEnd,
		LaunchMkdir,
		LaunchCreate, LaunchWrite, LaunchSync, LaunchRename, LaunchDirsync,
		LogCreate,
		AttemptMkdir, AttemptCreate, AttemptWrite, AttemptSync,
		AttemptDirsync, AttemptRename, AttemptRemove, RecoverRemove,
		DeriveCreate, DeriveWrite, DeriveSync, DeriveRename, DeriveDirsync,
		HistoryCreate, HistoryTake, HistoryWrite, HistorySync, HistoryTruncate, HistoryDirsync, PruneRename, PruneRemove,
		MergeRename, MergeDirsync, MergeRemove,
		SpawnGuard, SpawnServer, SpawnTool, KillServer, KillGuard, KillTool,
	}
}

// of returns the point of another operation on the same file.
func (p Point) of(operation string) Point {
	family, _, _ := strings.Cut(string(p), ".")
	return Point(family + "." + operation)
}
