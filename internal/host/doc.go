// Package host is the only writer of a node's file system. Root confines every
// access below one directory (the host's / seen from a container, or any
// directory in tests), Observe looks at paths, and a Session applies changes
// under a lock: the ledger is on disk before each write, writes are atomic, a
// file that was replaced since it was looked at is refused, and every write is
// verified. A crash at any point leaves a ledger from which the run can be
// repeated or undone.
package host
