// Package placeholder names what a plan may have put into the headers of requests. The
// plan's rules and the source of requests go by the same names.
package placeholder

// Names returns the names that stand, in braces, for what differs between the headers of
// requests:
//
//	n             the request's number within its trial
//	slot          the slot that sends it, counted over all shards; 0 in an open loop
//	turn          its turn in the conversation, from 0
//	conversation  a name that the requests of one conversation have in common and
//	              no other request of any trial; a single request has one of its own
//	max_tokens    what it asks for
//	input_tokens  what its prompt was made for; empty if unknown
func Names() []string {
	return []string{"n", "slot", "turn", "conversation", "max_tokens", "input_tokens"}
}
