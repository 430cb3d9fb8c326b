// Package e2e holds the tests that need more than Go: real engines, and the
// readers of other languages. They stand behind build tags, are run by
// `task e2e` and `task e2e:vllm`, and install nothing themselves: where a part
// is missing they fail and say which task brings it.
package e2e
