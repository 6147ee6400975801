// Command etcd is etcd, as the lab runs it: built from its module, so that the
// lab needs no download but the module proxy's.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
