// Package timeline describes the course of a trial: its ramp, plateau and tail, its
// figures in each slice of time, and whether they drifted on the plateau. All its
// functions are pure functions of the trial's requests.
package timeline
