//go:build e2e_kube

package kube

import "testing"

// Tests begin in the order of their files: what takes minutes goes on beside most others.
func TestBegin(*testing.T) { begun() }
