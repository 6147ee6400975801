// Package plan holds host changes as values: the steps that are wanted (Step),
// what was seen (State), the differences (Change), and the ledger of what was
// changed and what was there before (Ledger). Diff and Undo compute changes from
// them; both are pure. What is printed is what will be written: edits of files
// are resolved on the observed bytes before anything happens.
package plan
