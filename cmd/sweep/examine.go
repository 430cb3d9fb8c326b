package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
)

// examined returns what the doctor finds of rented pods: one line for the ledger, and
// one or two for each provider that could be asked without a plan. No line
// shows a key: it is in no error of a backend.
func (a *app) examined(ctx context.Context) ([]symptom, error) {
	inv, err := a.rented(ctx, nil)
	if err != nil {
		return nil, err
	}
	all := []symptom{ledger(inv)}
	for _, p := range inv.Providers {
		all = append(all, examine(ctx, p))
		if s, ok := leftovers(inv, p); ok {
			all = append(all, s)
		}
	}
	return all, nil
}

// ledger reports whether what is rented can be written down.
func ledger(inv *rented.Inventory) symptom {
	s := symptom{Check: "ledger", State: "ok"}
	switch {
	case inv.LedgerDir() == "":
		s.State, s.Found = "fail", plaintext.Line(inv.Damaged.Error())
		s.Do = "SWEEP_STATE_DIR names a folder for it: nothing is rented that cannot be written down"
		return s
	case inv.Damaged != nil:
		s.State, s.Found = "warn", plaintext.Line(inv.Damaged.Error())
		s.Do = "read the file for the pod's name, look whether it is there (sweep pods), then remove the file"
		return s
	}
	owed := 0
	for _, p := range inv.Pods {
		if p.Entry != nil {
			owed++
		}
	}
	s.Found = fmt.Sprintf("%s in %s", humanize.Plural(owed, "rented pod"), inv.LedgerDir())
	return s
}

// examine asks a provider whether it takes the credentials, and about the
// account behind them.
func examine(ctx context.Context, p *rented.Provider) symptom {
	s := symptom{Check: p.Where(), State: "ok"}
	if !p.Made() {
		s.State, s.Found = "warn", "not asked: "+plaintext.Line(p.Err.Error())
		return s
	}
	account, accountErr, err := p.Examine(ctx)
	if err != nil {
		s.State, s.Found = "warn", plaintext.Line(err.Error())
		if errors.Is(err, backends.ErrRefused) {
			s.State, s.refused = "fail", true
			s.Do = "see that the key is right, and that it may list, create and delete pods"
		}
		return s
	}
	found := []string{"it answers"}
	if p.Factory.Bills {
		found[0] = "the key works"
	}
	if accountErr != nil {
		s.State = "warn"
		found = append(found, "but the account cannot be read: "+accountErr.Error())
	} else if account != nil {
		found = append(found, accountWords(*account)...)
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
			parts = append(parts, fmt.Sprintf("which lasts for %s at this rate", humanize.Duration(time.Duration(*a.Balance/a.USDPerHour*float64(time.Hour)))))
		}
	} else {
		parts = append(parts, "it does not tell the balance")
	}
	parts = append(parts, fmt.Sprintf("%s running at %s/h, sweep's and others'", humanize.Plural(a.Pods, "pod"), humanize.Dollars(a.USDPerHour)))
	if a.SpentUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.2f spent in 24 h", *a.SpentUSD))
	}
	return parts
}

// leftovers returns pods of ours that sweep gc would end.
func leftovers(inv *rented.Inventory, at *rented.Provider) (symptom, bool) {
	n, rate := 0, 0.0
	for _, d := range inv.Decide(rented.Scope{Now: time.Now(), Owner: owner()}) {
		if d.Pod.By == at && d.Action == rented.End {
			n++
			rate += d.Pod.USDPerHour
		}
	}
	if n == 0 {
		return symptom{}, false
	}
	return symptom{
		Check: "leftovers", State: "warn", Found: fmt.Sprintf("%s of yours at %s, %s/h, that should have ended", humanize.Plural(n, "pod"), at.Where(), humanize.Dollars(rate)),
		Do: fmt.Sprintf("sweep gc --backend %s --yes", at.Factory.Kind),
	}, true
}
