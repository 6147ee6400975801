// Package archtest holds no code: its tests read the source tree and fail when a
// rule of ARCHITECTURE.md is broken: an upward import, an effect in a decision, a
// file or function over its budget, a host path outside package names, a row
// missing in a table, a word that does not belong here.
package archtest
