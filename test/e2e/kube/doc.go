// Package kube tests sweep against a Kubernetes of one node, which it starts itself:
//
//	go tool -modfile=tools/go.mod task e2e:kube
//
// The tests need root, for a bridge, network namespaces and mounts. Everything has its
// own folder, ports and bridge, and is gone when they end.
package kube
