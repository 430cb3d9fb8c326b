//go:build !unix

package openai

import "net"

func alive(net.Conn) bool { return true }
