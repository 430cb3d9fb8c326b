// Package drill kills, interrupts and starves whole runs of the real program
// against an emulated RunPod, and holds what is left against what the emulator
// has seen: its log and its meter, never the program's own words.
//
// A [scenario] is one line of text. It says what goes wrong and who cleans up:
//
//	mixed/kill=ledger.sent:after,faults=create-hangs+list-lag=1s,then=lostgc
//
// # What must hold
//
// After every command: where a pod of ours is alive, the exit code is 4, unless
// the command was killed or was told to keep it. After the last one: each trial
// has one row and one committed attempt, no byte of an earlier one has changed,
// nothing of ours is alive, nothing was there past its date, every create had
// its intent on the disk, nothing foreign was touched, no credential stands in
// a file, an output or a command line, and the bill is within the budget.
//
// # Running it
//
//	task drill                       # about a minute, chosen by a seed
//	task drill:full DURATION=60m     # what was never run comes first
//	task drill SEED=7 SCENARIO='kill/kill=ledger.sent:after,then=resume'
package drill
