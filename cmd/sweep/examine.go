package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/plaintext"
)

// rented is what the doctor finds of rented pods: one line for the ledger, and
// one or two for each provider that could be asked without a plan. No line
// shows a key: it is in no error of a backend.
func (a *app) rented(ctx context.Context) ([]symptom, error) {
	inv, err := a.take(ctx, nil)
	if err != nil {
		return nil, err
	}
	all := []symptom{inv.ledger()}
	for _, v := range inv.vendors {
		all = append(all, v.examine(ctx))
		if s, ok := inv.leftovers(v); ok {
			all = append(all, s)
		}
	}
	return all, nil
}

// ledger says whether what is rented can be written down.
func (inv *inventory) ledger() symptom {
	s := symptom{Check: "ledger", State: "ok"}
	switch {
	case inv.book == nil:
		s.State, s.Found = "fail", plaintext.Line(inv.damaged.Error())
		s.Do = "SWEEP_STATE_DIR names a folder for it: nothing is rented that cannot be written down"
		return s
	case inv.damaged != nil:
		s.State, s.Found = "warn", plaintext.Line(inv.damaged.Error())
		s.Do = "read the file for the pod's name, look whether it is there (sweep pods), then remove the file"
		return s
	}
	owed := 0
	for _, f := range inv.pods {
		if f.entry != nil {
			owed++
		}
	}
	s.Found = fmt.Sprintf("%s in %s", plural(owed, "rented pod"), inv.book.Dir())
	return s
}

// examine asks a provider whether it takes the credentials, and about the
// account behind them.
func (v *vendor) examine(ctx context.Context) symptom {
	s := symptom{Check: v.where(), State: "ok"}
	if v.backend == nil {
		s.State, s.Found = "warn", "not asked: "+plaintext.Line(v.err.Error())
		return s
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, fmt.Errorf("no answer within %v", lookTimeout))
	defer cancel()
	err := v.err
	if p, ok := v.backend.(backends.Prober); ok && err == nil {
		err = p.Probe(ctx)
	}
	if err != nil {
		s.State, s.Found = "warn", plaintext.Line(err.Error())
		if errors.Is(err, backends.ErrRefused) {
			s.State, s.refused = "fail", true
			s.Do = "see that the key is right, and that it may list, create and delete pods"
		}
		return s
	}
	found := []string{"it answers"}
	if v.factory.Bills {
		found[0] = "the key works"
	}
	if acc, ok := v.backend.(backends.Accountant); ok {
		account, err := acc.Account(ctx)
		if err != nil {
			s.State = "warn"
			found = append(found, "but the account cannot be read: "+err.Error())
		} else {
			found = append(found, accountWords(account)...)
		}
	}
	s.Found = plaintext.Line(strings.Join(found, ", "))
	return s
}

func accountWords(a backends.Account) []string {
	var parts []string
	if a.Description != "" {
		parts = append(parts, "account "+a.Description)
	}
	if a.Balance != nil {
		parts = append(parts, fmt.Sprintf("balance $%.2f", *a.Balance))
		if a.USDPerHour > 0 {
			parts = append(parts, fmt.Sprintf("which lasts for %s at this rate", span(time.Duration(*a.Balance/a.USDPerHour*float64(time.Hour)))))
		}
	} else {
		parts = append(parts, "it does not tell the balance")
	}
	parts = append(parts, fmt.Sprintf("%s running at %s/h, sweep's and others'", plural(a.Pods, "pod"), dollars(a.USDPerHour)))
	if a.SpentUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.2f spent in 24 h", *a.SpentUSD))
	}
	return parts
}

// leftovers are pods of ours that sweep gc would end.
func (inv *inventory) leftovers(v *vendor) (symptom, bool) {
	s := scope{now: time.Now(), owner: owner()}
	n, rate := 0, 0.0
	for _, f := range inv.pods {
		if f.by == v && decide(f, s).action == end {
			n++
			rate += f.USDPerHour
		}
	}
	if n == 0 {
		return symptom{}, false
	}
	return symptom{
		Check: "leftovers", State: "warn", Found: fmt.Sprintf("%s of yours at %s, %s/h, that should be gone", plural(n, "pod"), v.where(), dollars(rate)),
		Do: fmt.Sprintf("sweep gc --backend %s --yes", v.factory.Kind),
	}, true
}
