// Package names holds every name that this project shares with the outside
// world: label keys, object names, resource names, environment variables and
// host paths. A string of that kind stands here once and nowhere else, so that
// compatibility with the existing ecosystem can be read in one place and no
// absolute host path hides in the code. Values only: no I/O.
package names
