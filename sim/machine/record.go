package machine

import (
	"fmt"
	"hash/fnv"
	"maps"
	"sort"
	"strconv"
	"strings"
	"time"
)

// HeaderSize is the length of a record's first part in bytes; the body follows.
const HeaderSize = 64

// RecordSize is the length of the file that holds a record: it never changes, so
// that a record can be rewritten in place while others have the file mounted.
const RecordSize = 128 * 1024

// Record is the state that the driver tells its libraries: system and GPU values
// by key.
type Record struct {
	Sequence uint64
	System   map[string]string
	GPUs     []map[string]string
}

// NewRecord is the state of a machine whose driver was loaded at a moment: GPUs use
// energy from then on.
func NewRecord(m Machine, driver string, loaded time.Time) Record {
	r := Record{Sequence: 1, System: map[string]string{
		"driver_version": driver,
		"nvml_version":   strconv.Itoa(m.Cuda/1000) + "." + driver,
		"cuda_version":   strconv.Itoa(m.Cuda),
	}}
	for _, g := range m.GPUs {
		v := map[string]string{}
		maps.Copy(v, g.Values)
		settleEnergy(v, loaded)
		r.GPUs = append(r.GPUs, v)
	}
	return r
}

// FormatRecord renders a record as the file's whole content: a header line with
// sequence, length and checksum, padded; the body of key=value lines; padding.
func FormatRecord(r Record) ([]byte, error) {
	var b strings.Builder
	write := func(prefix string, values map[string]string) {
		keys := make([]string, 0, len(values))
		for k := range values {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			fmt.Fprintf(&b, "%s%s=%s\n", prefix, k, values[k])
		}
	}
	write("system.", r.System)
	for i, g := range r.GPUs {
		write(fmt.Sprintf("gpu.%d.", i), g)
	}
	body := b.String()
	h := fnv.New32a()
	_, _ = h.Write([]byte(body)) // never fails, by the interface's word
	header := fmt.Sprintf("gpusim 1 %d %d %08x", r.Sequence, len(body), h.Sum32())
	out := fmt.Sprintf("%-*s\n%s", HeaderSize-1, header, body)
	if len(out) > RecordSize {
		return nil, fmt.Errorf("the record has %d bytes, more than the file's %d", len(out), RecordSize)
	}
	return append([]byte(out), make([]byte, RecordSize-len(out))...), nil
}

// ParseRecord reads the content of a record file.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	var length int
	var sum uint32
	if len(data) < HeaderSize {
		return r, fmt.Errorf("the record has %d bytes, less than its header", len(data))
	}
	if _, err := fmt.Sscanf(string(data[:HeaderSize]), "gpusim 1 %d %d %x", &r.Sequence, &length, &sum); err != nil {
		return r, fmt.Errorf("reading the record's header: %w", err)
	}
	if HeaderSize+length > len(data) {
		return r, fmt.Errorf("the record's body has %d bytes, its header says %d", len(data)-HeaderSize, length)
	}
	body := data[HeaderSize : HeaderSize+length]
	h := fnv.New32a()
	_, _ = h.Write(body)
	if h.Sum32() != sum {
		return r, fmt.Errorf("the record's checksum is %08x, its header says %08x", h.Sum32(), sum)
	}
	r.System = map[string]string{}
	for line := range strings.SplitSeq(string(body), "\n") {
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		if rest, is := strings.CutPrefix(key, "system."); is {
			r.System[rest] = value
			continue
		}
		parts := strings.SplitN(key, ".", 3)
		if len(parts) != 3 || parts[0] != "gpu" {
			return r, fmt.Errorf("the record has an unknown key %q", key)
		}
		i, err := strconv.Atoi(parts[1])
		if err != nil || i < 0 || i > 64 {
			return r, fmt.Errorf("the record has an unknown GPU in key %q", key)
		}
		for len(r.GPUs) <= i {
			r.GPUs = append(r.GPUs, map[string]string{})
		}
		r.GPUs[i][parts[2]] = value
	}
	return r, nil
}
