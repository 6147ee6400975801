package exporter

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// xidField is the field that is made of the errors that the driver reports.
const xidField = "DCGM_FI_DEV_XID_ERRORS"

//go:embed default-counters.csv
var defaultCounters string

// fieldName is what a field's and so a metric's name looks like.
var fieldName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Counter is one metric to export.
type Counter struct {
	// Field is the field's and the metric's name.
	Field string
	// Type is gauge, counter or label: a label is not a metric of its own but stands
	// on every metric of its GPU.
	Type string
	// Help says what it means.
	Help string
}

// DefaultCounters are the metrics that are exported unless told otherwise.
func DefaultCounters() ([]Counter, error) { return ParseCounters(defaultCounters) }

// ParseCounters reads a file of counters: three columns, field name, type and help;
// a line that begins with # is a comment. A wrong line fails with its number.
func ParseCounters(text string) ([]Counter, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = '#', true, -1, true
	var out []Counter
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading counters: %w", err)
		}
		line, _ := r.FieldPos(0)
		c, err := counter(row)
		if err != nil {
			return nil, fmt.Errorf("reading counters, line %d: %w", line, err)
		}
		if slices.ContainsFunc(out, func(o Counter) bool { return o.Field == c.Field }) {
			return nil, fmt.Errorf("reading counters, line %d: field %q stands twice", line, c.Field)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading counters: the file names no field")
	}
	return out, nil
}

// counter is one row; a help text with commas in it is several columns.
func counter(row []string) (Counter, error) {
	if len(row) < 3 {
		return Counter{}, fmt.Errorf("%d columns, want field name, type and help", len(row))
	}
	c := Counter{Field: strings.TrimSpace(row[0]), Type: strings.TrimSpace(row[1]), Help: strings.TrimSpace(strings.Join(row[2:], ", "))}
	switch {
	case !fieldName.MatchString(c.Field):
		return c, fmt.Errorf("%q is not a field's name", c.Field)
	case c.Type != "gauge" && c.Type != "counter" && c.Type != "label":
		return c, fmt.Errorf("type %q of %s is not known, want gauge, counter or label", c.Type, c.Field)
	}
	return c, nil
}

// Split returns the counters that can be exported and those that cannot, given the
// names of the fields that can be read.
func Split(all []Counter, readable []string) (known, unknown []Counter) {
	for _, c := range all {
		if c.Field == xidField || slices.Contains(readable, c.Field) {
			known = append(known, c)
		} else {
			unknown = append(unknown, c)
		}
	}
	return known, unknown
}
