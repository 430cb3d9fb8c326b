package kubernetes

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/result"
)

// An entry that a load pod does not reach is a failure with the class of connections.
func TestEnter_class(t *testing.T) {
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: kubetest.Start(t).Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	fleet := clients.New(clients.Config{API: api, Name: backends.NewName("user@host", "run1", time.Now().Add(time.Hour)), Want: backends.ClientsWant{Namespace: "ns"}})
	err = fleet.Own(ctx)
	cancel() // no pod comes that could reach it
	at := &url.URL{Scheme: "http", Host: "192.0.2.1:8000"}
	d := &deployment{fleet: fleet}
	unreached := d.enter(ctx, way{entries: []entry{{host: &podHost{Host: foreign.Host{At: at}}}}, want: backends.ClientsWant{Namespace: "ns"}})
	f, ok := errors.AsType[*backends.Failure](unreached)
	if !ok || f.Class != result.ErrConnect || !strings.Contains(unreached.Error(), "http://192.0.2.1:8000: ") {
		t.Errorf("%#v: %v", f, unreached)
	}
	if err := errors.Join(err, fleet.Close(t.Context())); err != nil {
		t.Error(err)
	}
}
