package plan

import "slices"

// Reverse returns the changes that put everything back as it was before cs were
// made, last change first. Paths that cs was the first to change are dropped from
// the ledger; others keep what the ledger remembers of them.
func Reverse(cs Changes) Changes {
	var out Changes
	for _, c := range slices.Backward(cs) {
		if !c.Effective() || !c.Kind.onDisk() {
			continue
		}
		back := c
		back.From, back.To = c.To, c.From
		back.Op = opOf(c.To, c.From)
		back.Source = nil
		back.Foreign = false
		back.Why = "roll back: " + c.Why
		back.Drop = c.Prior == nil || c.Prior.Same(c.From)
		out = append(out, back)
	}
	return out
}
