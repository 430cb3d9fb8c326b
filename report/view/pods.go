package view

import (
	"cmp"
	"fmt"
	"time"

	"sweep.dev/sweep/report/draw"
)

// Pods returns those that are not known to be gone: owed ones, and those that were kept on
// purpose.
func (v *View) Pods() (owed, kept []draw.Item) {
	for _, o := range v.State.Owed {
		text := fmt.Sprintf("pod %s (%s)", cmp.Or(o.Name, o.Pod), o.Kind)
		if o.Ref != nil {
			text += ", " + o.Ref.ID
		}
		if o.USDPerHour > 0 {
			text += fmt.Sprintf(", $%.2f/h", o.USDPerHour)
		}
		if o.Kept() {
			kept = append(kept, draw.Item{Text: text + ", kept until " + o.Expires.UTC().Format(time.DateTime) + " UTC"})
		} else {
			owed = append(owed, draw.Item{Text: text})
		}
	}
	return owed, kept
}

// KeptTitle returns the title of the pods that were kept.
func (v *View) KeptTitle() string {
	return "Kept running, and billed until then; the next run of the same server takes them over"
}

// OwedTitle returns that of the others.
func (v *View) OwedTitle() string {
	if v.Running {
		return "In use by the run, which is still going"
	}
	return "Termination not confirmed: these may still run, or cost money"
}
