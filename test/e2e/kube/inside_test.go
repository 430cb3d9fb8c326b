//go:build e2e_kube

package kube

import (
	"fmt"
	"io"
	"net"
	"strings"
)

// services returns the first three numbers of the addresses of Services.
func (n *node) services() string { return strings.TrimSuffix(n.network, ".0") + ".1" }

// admit lets pods reach the API server at the address of its Service, in place of a
// kube-proxy: the server itself listens on the loopback alone.
func (n *node) admit() (err error) {
	n.inside, err = net.Listen("tcp", n.services()+".1:443")
	if err != nil {
		return err
	}
	go func() {
		for {
			from, err := n.inside.Accept()
			if err != nil {
				return // the node is stopped
			}
			to, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n.port))
			if err != nil {
				from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() { _, _ = io.Copy(way[0], way[1]); way[0].Close(); way[1].Close() }()
			}
		}
	}()
	return nil
}
