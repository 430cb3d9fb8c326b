//go:build !unix

package openai

func alive(*conn) bool { return true }
