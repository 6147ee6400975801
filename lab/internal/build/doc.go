// Package build makes the programs that the lab runs, from pinned Go modules
// below lab/components, into a cache that is keyed by version and by the hash of
// everything that decides the result. An entry is complete only when its marker
// is there, which is written last: what a killed build left is found and built
// again. The package also checks that the machine has what the lab needs.
package build
