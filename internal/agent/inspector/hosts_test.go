package inspector

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"gpu-operator/internal/facts"
)

var update = flag.Bool("update", false, "write what was got as what is wanted")

const hostsDir = "../../../test/hosts/inspect"

// A host is a txtar archive: its files below "host/", and in its comment lines that
// make what text cannot hold:
//
//	link PATH TARGET           a symbolic link
//	empty PATH                 an empty file; stands for a device node
//	bytes PATH HEX             a file of these bytes
//	cmdline PID WORD...        /proc/PID/cmdline
//	ldcache PATH LIBRARY...    a linker's cache
//
// "{{sha256 PATH}}" in a file is replaced by the hash of another file of the archive.
// The file "want.json" is the expected status.
type testHost struct {
	archive *txtar.Archive
	path    string
	dir     string
}

// unpack reads a host's archive and lays it out in a directory of the test.
func unpack(t testing.TB, name string) testHost {
	t.Helper()
	file := filepath.Join(hostsDir, name+".txtar")
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := testHost{archive: archive, path: file, dir: t.TempDir()}
	hash := regexp.MustCompile(`\{\{sha256 ([^}]+)\}\}`)
	for _, f := range archive.Files {
		if rest, ok := strings.CutPrefix(f.Name, "host/"); ok {
			data := hash.ReplaceAllFunc(f.Data, func(m []byte) []byte {
				sum := sha256.Sum256(h.file(t, "host"+string(hash.FindSubmatch(m)[1])))
				return fmt.Appendf(nil, "%x", sum)
			})
			h.write(t, rest, data)
		}
	}
	for line := range strings.Lines(string(archive.Comment)) {
		h.directive(t, strings.Fields(line))
	}
	return h
}

// directive carries out one line of the comment.
func (h testHost) directive(t testing.TB, words []string) {
	t.Helper()
	if len(words) < 2 {
		return
	}
	switch words[0] {
	case "link":
		p := filepath.Join(h.dir, words[1])
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(words[2], p); err != nil {
			t.Fatal(err)
		}
	case "empty":
		h.write(t, words[1], nil)
	case "bytes":
		data, err := hex.DecodeString(words[2])
		if err != nil {
			t.Fatal(err)
		}
		h.write(t, words[1], data)
	case "cmdline":
		h.write(t, "proc/"+words[1]+"/cmdline", []byte(strings.Join(words[2:], "\x00")+"\x00"))
	case "ldcache":
		h.write(t, words[1], ldCache(words[2:]))
	}
}

// file returns the data of a file in the archive.
func (h testHost) file(t testing.TB, name string) []byte {
	t.Helper()
	for _, f := range h.archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("archive %s has no file %q", h.path, name)
	return nil
}

// write puts a file on the host; parents are followed through links of the host.
func (h testHost) write(t testing.TB, p string, data []byte) {
	t.Helper()
	full := filepath.Join(h.dir, p)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// scan looks at the host as the inspector does.
func (h testHost) scan(t *testing.T) facts.Node {
	t.Helper()
	roots, err := OpenRoots(h.dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(roots.Close)
	return NewScanner(roots, "amd64").Scan()
}

// ldCache renders a linker's cache of 64-bit libraries.
func ldCache(paths []string) []byte {
	const headerSize, entrySize, flagX8664 = 48, 24, 0x0303
	var entries, table bytes.Buffer
	put := func(s string) uint32 {
		at := uint32(headerSize + entrySize*len(paths) + table.Len())
		table.WriteString(s + "\x00")
		return at
	}
	for _, p := range paths {
		for _, v := range []uint32{flagX8664, put(filepath.Base(p)), put(p), 0, 0, 0} {
			entries.Write(binary.NativeEndian.AppendUint32(nil, v))
		}
	}
	header := append([]byte("glibc-ld.so.cache1.1"), make([]byte, headerSize-20)...)
	binary.NativeEndian.PutUint32(header[20:], uint32(len(paths)))
	return append(append(header, entries.Bytes()...), table.Bytes()...)
}

// TestHosts looks at whole hosts and compares the status with the one wanted.
func TestHosts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(hostsDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no hosts in %s: %v", hostsDir, err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		t.Run(name, func(t *testing.T) {
			h := unpack(t, name)
			got, err := json.MarshalIndent(StatusOf(h.scan(t)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			if *update {
				h.want(t, got)
				return
			}
			if d := cmp.Diff(string(h.file(t, "want.json")), string(got)); d != "" {
				t.Errorf("status differs (-want +got):\n%s", d)
			}
		})
	}
}

// want writes got into the archive as what is wanted.
func (h testHost) want(t *testing.T, got []byte) {
	t.Helper()
	files := []txtar.File{}
	for _, f := range h.archive.Files {
		if f.Name != "want.json" {
			files = append(files, f)
		}
	}
	h.archive.Files = append(files, txtar.File{Name: "want.json", Data: got})
	if err := os.WriteFile(h.path, txtar.Format(h.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
