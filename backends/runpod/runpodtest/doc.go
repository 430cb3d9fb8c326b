// Package runpodtest is an emulator of RunPod's REST API v2: the part of it by
// which pods are rented, watched and given back. It is written from RunPod's
// OpenAPI document and from what has been recorded of the live service, and
// shares nothing with the client.
//
// Every pod is a real thing: its command runs as processes of this machine (see
// package podtest), its ports are ports of the loopback address, its log is what
// the command prints. A meter of its own says what each pod has cost, and
// [Emulator.Audit] what was asked, by whom, and what is still there: the oracle
// of every test for leaks.
//
// # What is accepted
//
// Requests are checked against a table of keys, types, enumerations and limits:
// an unknown key in a body is 422, an unknown query parameter is ignored, and a
// GPU pod without gpu.count finds no instance, as on the live service.
//
// # Networking
//
// A pod's "N/tcp" is a port of 127.0.0.1, and so it stands in runtime.ports. A
// pod's "N/http" is reached through a proxy, as on RunPod: [Emulator.ProxyURL]
// is the template of its addresses. The container is told to listen on the port
// of this machine in place of its own; see [podtest.Remap].
//
// # Faults
//
// Everything RunPod is known to do wrong is a fault with a name; see
// [FaultKinds]. Faults are given to [New] and can be set while it runs.
package runpodtest
