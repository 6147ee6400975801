package facts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
)

// LibraryML is the soname of the management library, by which a driver root is recognized.
const LibraryML = "libnvidia-ml.so.1"

// libraryName finds the version in a library's file name.
var libraryName = regexp.MustCompile(`^lib[\w.+-]+?\.so\.(\d+\.\d+(?:\.\d+)?)$`)

// LibraryVersion returns the driver version that a driver library's file name ends
// in (libnvidia-ml.so.550.163.01), and "" for a soname without version (….so.1).
func LibraryVersion(name string) string {
	m := libraryName.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return m[1]
}

// Layout of the linker's cache since glibc 2.2: a header, the entries, then the
// strings; all offsets count from the header's start.
const (
	ldCacheMagic      = "glibc-ld.so.cache1.1"
	ldCacheHeaderSize = 48
	ldCacheEntrySize  = 24
	// ldFlagPlain marks a library without an architecture's own bits: a 32-bit one.
	ldFlagPlain = 0x0003
)

// LibraryPaths returns the paths that a linker cache (ld.so.cache) has for a
// soname, without 32-bit libraries. It fails for data that is no such cache.
func LibraryPaths(cache []byte, soname string) ([]string, error) {
	start := bytes.Index(cache, []byte(ldCacheMagic))
	if start < 0 || len(cache) < start+ldCacheHeaderSize {
		return nil, fmt.Errorf("decoding linker cache: no header %q in %d bytes", ldCacheMagic, len(cache))
	}
	data := cache[start:]
	count := int(binary.NativeEndian.Uint32(data[len(ldCacheMagic):]))
	if count < 0 || count > (len(data)-ldCacheHeaderSize)/ldCacheEntrySize {
		return nil, fmt.Errorf("decoding linker cache: %d entries do not fit into %d bytes", count, len(data))
	}
	var out []string
	for i := range count {
		entry := data[ldCacheHeaderSize+i*ldCacheEntrySize:]
		if binary.NativeEndian.Uint32(entry) == ldFlagPlain {
			continue
		}
		if cString(data, binary.NativeEndian.Uint32(entry[4:])) == soname {
			out = append(out, cString(data, binary.NativeEndian.Uint32(entry[8:])))
		}
	}
	return out, nil
}

// cString returns the NUL-terminated string at an offset; "" when it is outside.
func cString(data []byte, at uint32) string {
	if uint64(at) >= uint64(len(data)) {
		return ""
	}
	value, _, ok := bytes.Cut(data[at:], []byte{0})
	if !ok {
		return ""
	}
	return string(value)
}
