// Package models makes loads whose truth is known: series, queues, and a
// continuous-batching engine under the program's own sources. Each is a pure
// function of its seed on virtual time, so that a rule can be held against
// thousands of them.
package models

import (
	"math/rand/v2"
	"time"
)

// stream returns the stream of chance of a seed for one purpose.
func stream(seed uint64, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
