//go:build e2e_kube

package kube

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
)

// names answers for the pods of headless Services, as a cluster's DNS does: the names and
// addresses are those of the cluster's own EndpointSlices.
func (n *node) names() error {
	conn, err := net.ListenPacket("udp", n.network+".1:53")
	if err != nil {
		return err
	}
	n.dns = conn
	go func() {
		question := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			if answer := n.answer(question[:size]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

// answer returns that to one question for an address.
func (n *node) answer(question []byte) []byte {
	const header = 12
	var labels []string
	at := header
	for at < len(question) && question[at] != 0 {
		end := at + 1 + int(question[at])
		if end > len(question) {
			return nil
		}
		labels = append(labels, string(question[at+1:end]))
		at = end
	}
	end := at + 5 // of the question: a zero, the type, the class
	if end > len(question) {
		return nil
	}
	answer := append([]byte{}, question[:end]...)
	answer[2], answer[3] = 0x85, 0x83       // an answer with authority: there is no such name
	copy(answer[6:header], make([]byte, 6)) // no records
	if binary.BigEndian.Uint16(question[at+1:]) != 1 {
		answer[3] = 0x80 // of another type than A: none
		return answer
	}
	ip := n.lookUp(labels)
	if ip == nil {
		return answer
	}
	answer[3], answer[7] = 0x80, 1
	return append(append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4), ip...)
}

// lookUp returns the address of POD.SERVICE.NAMESPACE.svc.cluster.local.
func (n *node) lookUp(labels []string) net.IP {
	if len(labels) != 6 || strings.Join(labels[3:], ".") != "svc.cluster.local" {
		return nil
	}
	var list struct {
		Items []struct {
			Endpoints []struct {
				Hostname  string
				Addresses []string
			}
		}
	}
	path := "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=kubernetes.io/service-name=%s"
	if n.get(fmt.Sprintf(path, labels[2], labels[1]), &list) != nil {
		return nil
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Hostname == labels[0] && len(e.Addresses) > 0 {
				return net.ParseIP(e.Addresses[0]).To4()
			}
		}
	}
	return nil
}
