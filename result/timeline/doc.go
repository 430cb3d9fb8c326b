// Package timeline is how a trial went: its ramp, plateau and tail, what it was
// like in each slice of its time, and whether it drifted on its plateau. All of
// it are pure functions of the trial's requests.
package timeline
