package loglines

import "slices"

// What an event says about the way of its request.
const (
	PickedPrefill = "picked_prefill" // the router chose the pod for the prompt
	PickedDecode  = "picked_decode"  // the router chose the pod for the answer
	Picked        = "picked"         // the router chose workers for one or both
	DecodeOnly    = "decode_only"    // the router chose no pod for the prompt
	Prefill       = "prefill"        // the pod that prints it computes the prompt
	Decode        = "decode"         // the pod that prints it computes the answer
	Moved         = "moved"          // the pod that prints it got the KV cache of the prompt from another
	Alias         = "alias"          // other lines have another id of the request
)

// Tellings returns all of them.
func Tellings() []string {
	return []string{PickedPrefill, PickedDecode, Picked, DecodeOnly, Prefill, Decode, Moved, Alias}
}

// A Hop is what one line says about the way of a request.
type Hop struct {
	Tells   string
	Says    string // what happened, in a few words
	Request string // the id as the line has it, with what the server put around it; "" if it has none
	Alias   string // another id of the request; "" if the line has none
	// Pod is the one that the line is about: for picks that say a worker alone it is "".
	Pod string
	// Worker is the id that the worker which prints the line has for routers, or of the
	// one that was picked.
	Worker              string
	ToPrefill, ToDecode string // workers of Picked
}

// Hop reads a line that says where a request went.
func (r *Reader) Hop(s Source, text string) (h Hop, ok bool) {
	text = uncoloured(text)
	for i, patterns := range r.events {
		e := &r.logs.Events[i]
		if e.Tells == "" || !r.prints(s, e.Roles) {
			continue
		}
		for _, re := range patterns {
			m := re.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			group := func(name string) string {
				if i := re.SubexpIndex(name); i >= 0 {
					return m[i]
				}
				return ""
			}
			h = Hop{Tells: e.Tells, Says: e.Says, Request: group(groupRequest), Alias: group(groupAlias), Pod: s.Pod, Worker: group(groupWorker), ToPrefill: group(groupPrefill), ToDecode: group(groupDecode)}
			switch pod := group(groupPod); {
			case pod != "":
				h.Pod = rank.ReplaceAllString(pod, "")
			case h.Worker != "" && (h.Tells == PickedPrefill || h.Tells == PickedDecode):
				h.Pod = ""
			}
			return h, true
		}
	}
	return h, false
}

// An Unprinted is a kind of line that says where requests went and that no log has.
type Unprinted struct {
	Tells  string `json:"tells"`
	Says   string `json:"says"`
	Prints string `json:"prints"` // what makes a server print it
}

// Unprinted returns the kinds of lines that tell what none of these do, if something makes a
// server print them.
func (r *Reader) Unprinted(told map[string]bool) (all []Unprinted) {
	for i := range r.logs.Events {
		e := &r.logs.Events[i]
		if e.Tells == "" || told[e.Tells] || e.Prints == "" {
			continue
		}
		if one := (Unprinted{e.Tells, e.Says, e.Prints}); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// Aliases reports whether a line may give a request another id, so that its other lines do not
// have the one that the client sent.
func (r *Reader) Aliases() bool { return r.aliases }

// TellsWays reports whether a line of these logs can tell the way of a request.
func (l *Logs) TellsWays() bool {
	return slices.ContainsFunc(l.Events, func(e Event) bool { return e.Tells != "" })
}
