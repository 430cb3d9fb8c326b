package runpod

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/runpodapi"
)

// An offer is a candidate as the catalogue has it now.
type offer struct {
	Candidate
	gpu   string // catalogue name
	id    string // RunPod's
	price float64
	stock string
	reach bool // the catalogue has some
}

func (o offer) where() string {
	return strings.TrimSpace(o.Cloud + " " + strings.Join(o.DataCenters, ","))
}

// stocks are the catalogue's words for stock, the least first.
var stocks = []string{"", "NONE", "LOW", "MEDIUM", "HIGH"}

// Quote lists the candidates in their order, at the catalogue's price of now.
func (b *Backend) Quote(ctx context.Context, spec backends.Spec) ([]backends.Offer, error) {
	offers, err := b.offers(ctx, spec)
	if err != nil {
		return nil, err
	}
	var list []backends.Offer
	for _, o := range offers {
		list = append(list, backends.Offer{
			GPU: o.gpu, Where: o.where(), USDPerHour: o.price, Stock: o.stock, Available: o.reach,
		})
	}
	return list, nil
}

func (b *Backend) offers(ctx context.Context, spec backends.Spec) ([]offer, error) {
	gpus := max(1, spec.GPUs)
	known := map[string][]runpodapi.GPUType{} // by cloud
	var list []offer
	for _, c := range b.Candidates {
		o := offer{Candidate: c, gpu: cmp.Or(c.GPU, spec.GPU)}
		var err error
		if o.id, err = runpodID(o.gpu); err != nil {
			return nil, err
		}
		if known[c.Cloud] == nil {
			if known[c.Cloud], err = b.client.GPUs(ctx, c.Cloud, gpus, b.MinCUDA); err != nil {
				return nil, err
			}
		}
		i := slices.IndexFunc(known[c.Cloud], func(g runpodapi.GPUType) bool { return g.ID == o.id })
		if i >= 0 {
			o.look(known[c.Cloud][i], gpus)
		}
		list = append(list, o)
	}
	return list, nil
}

// look takes price and stock from an entry of the catalogue. The most stock of
// the candidate's data centres counts; without a word on stock there may be some.
func (o *offer) look(g runpodapi.GPUType, gpus int) {
	o.price = g.Price[o.Cloud] * float64(gpus)
	o.stock = g.Availability
	if len(o.DataCenters) > 0 && len(g.DataCenters) > 0 {
		o.stock = "NONE"
		for _, d := range g.DataCenters {
			if slices.Contains(o.DataCenters, d.ID) && slices.Index(stocks, d.Availability) > slices.Index(stocks, o.stock) {
				o.stock = d.Availability
			}
		}
	}
	most, told := g.MaxCount[o.Cloud]
	o.reach = o.stock != "NONE" && o.price > 0 && (!told || gpus <= most)
}

// none says that no offer can be had, and what each was.
func none(spec backends.Spec, offers []offer, last error) error {
	var parts []string
	for _, o := range offers {
		stock := cmp.Or(o.stock, "not in the catalogue")
		parts = append(parts, fmt.Sprintf("%s in %s: %s", o.gpu, o.where(), stock))
	}
	err := fmt.Errorf("%w: runpod has no %d x %s (%s)", backends.ErrCapacity, max(1, spec.GPUs), spec.GPU, strings.Join(parts, "; "))
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}
