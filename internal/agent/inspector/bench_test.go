package inspector

import "testing"

// BenchmarkScan is the cost of one look at a ready node: every 15 seconds, for ever.
func BenchmarkScan(b *testing.B) {
	roots, err := OpenRoots(unpack(b, "ready").dir, "", "")
	if err != nil {
		b.Fatal(err)
	}
	defer roots.Close()
	s := NewScanner(roots, "amd64")
	for b.Loop() {
		StatusOf(s.Scan())
	}
}
