package mount

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBelow(t *testing.T) {
	t.Parallel()
	const info = `1 1 0:1 / / rw - ext4 /dev/vda rw
2 1 0:2 / /var/lib/gpulab/nodes/a/layer rw - tmpfs x rw
3 1 0:3 / /var/lib/gpulab/nodes/a\040b/root rw - overlay x rw
4 1 0:4 / /var/lib/gpulab-other rw - tmpfs x rw
`
	want := []string{"/var/lib/gpulab/nodes/a b/root", "/var/lib/gpulab/nodes/a/layer"}
	if d := cmp.Diff(want, below(info, "/var/lib/gpulab/")); d != "" {
		t.Error(d)
	}
}
