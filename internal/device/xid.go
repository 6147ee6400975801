package device

import (
	"fmt"
	"strconv"
	"strings"
)

// Class says what an error of a GPU means for the work on it.
type Class string

// Classes of errors.
const (
	// ClassApplication: a program did something wrong; the GPU is as good as before.
	ClassApplication Class = "Application"
	// ClassTransient: the GPU had an error that it can recover from by itself. It gets
	// no new work until it answers, says that nothing has to be done, and had no
	// further error for a while.
	ClassTransient Class = "Transient"
	// ClassReset: the GPU has to be reset before new work. It counts as fit again when
	// the driver itself says that nothing has to be done any more.
	ClassReset Class = "NeedsReset"
	// ClassReboot: only a reboot of the node, or a repair, helps.
	ClassReboot Class = "NeedsReboot"
	// ClassLost: the GPU has fallen off the bus or does not answer. It counts as fit
	// again when it answers and the driver says that nothing has to be done.
	ClassLost Class = "Lost"
)

// XIDCode is a row of the table of error codes.
type XIDCode struct {
	Class Class
	// Text says in a few words what happened.
	Text string
}

// XIDs is the table of the driver's error codes, after NVIDIA's catalogue of XID
// errors. A code that is not in it is transient: what is not understood gets no new
// work until the GPU proves that it is well.
func XIDs() map[int]XIDCode {
	return map[int]XIDCode{
		13:  {ClassApplication, "graphics engine exception: illegal instruction or address"},
		31:  {ClassApplication, "memory page fault of the program"},
		43:  {ClassApplication, "the program's channel was stopped"},
		45:  {ClassApplication, "preemptive clean-up after an earlier error"},
		68:  {ClassApplication, "video decoder exception"},
		69:  {ClassApplication, "graphics engine class error"},
		94:  {ClassApplication, "contained memory error: it hit the program that has the page"},
		109: {ClassApplication, "context switch timeout"},
		137: {ClassApplication, "NVLink fault of a peer access: a page fault over the link"},

		32: {ClassTransient, "invalid or corrupted push buffer stream"},
		38: {ClassTransient, "driver firmware error"},
		63: {ClassTransient, "a row or page was noted for remapping or retirement"},
		92: {ClassTransient, "high rate of single-bit memory errors"},

		46:  {ClassReset, "the GPU stopped processing"},
		48:  {ClassReset, "double-bit memory error"},
		61:  {ClassReset, "internal micro-controller breakpoint"},
		62:  {ClassReset, "internal micro-controller halt"},
		64:  {ClassReset, "remapping or retirement could not be recorded"},
		74:  {ClassReset, "NVLink error"},
		95:  {ClassReset, "uncontained memory error"},
		119: {ClassReset, "the GPU's system processor does not answer"},
		120: {ClassReset, "error of the GPU's system processor"},
		140: {ClassReset, "unrecovered memory error"},
		143: {ClassReset, "initialisation of the GPU failed"},
		144: {ClassReset, "NVLink error, by part of the link"},
		145: {ClassReset, "NVLink error, by part of the link"},
		146: {ClassReset, "NVLink error, by part of the link"},
		147: {ClassReset, "NVLink error, by part of the link"},
		148: {ClassReset, "NVLink error, by part of the link"},
		149: {ClassReset, "NVLink error, by part of the link"},
		150: {ClassReset, "NVLink error, by part of the link"},
		154: {ClassReset, "the driver's recovery action changed: it is asked at once"},

		79:  {ClassLost, "the GPU has fallen off the bus"},
		110: {ClassReboot, "security fault"},
		136: {ClassReboot, "training of an NVLink failed"},
	}
}

// Table is the table of error codes in force.
type Table map[int]Class

// NewTable returns the table with what people said about single codes: codes in
// ignore count as the application's, those in heed as transient when they would
// be ignored otherwise. The lists are upstream's: numbers separated by commas, and
// "all" or "xids" in ignore, by which no code counts at all.
func NewTable(ignore, heed string) (Table, error) {
	t := Table{}
	for c, row := range XIDs() {
		t[c] = row.Class
	}
	every, ignored, err := codes(ignore)
	if err != nil {
		return nil, fmt.Errorf("reading the codes to ignore: %w", err)
	}
	_, heeded, err := codes(heed)
	if err != nil {
		return nil, fmt.Errorf("reading the codes to heed: %w", err)
	}
	if every {
		t = Table{everyCode: ClassApplication}
	}
	for _, c := range ignored {
		t[c] = ClassApplication
	}
	for _, c := range heeded {
		if class := XIDs()[c].Class; class != "" && class != ClassApplication {
			t[c] = class
		} else {
			t[c] = ClassTransient
		}
	}
	return t, nil
}

// everyCode is the key under which a table says what codes without a row mean.
const everyCode = -1

// Class returns the class of a code.
func (t Table) Class(code int) Class {
	if c, ok := t[code]; ok {
		return c
	}
	if c, ok := t[everyCode]; ok {
		return c
	}
	return ClassTransient
}

// codes reads a list of error codes; every says that it names all of them.
func codes(list string) (every bool, out []int, err error) {
	for f := range strings.SplitSeq(list, ",") {
		switch f = strings.TrimSpace(f); f {
		case "":
		case "all", "xids":
			every = true
		default:
			n, err := strconv.Atoi(f)
			if err != nil || n < 0 {
				return false, nil, fmt.Errorf("%q is not an error code, want numbers separated by commas, all or xids", f)
			}
			out = append(out, n)
		}
	}
	return every, out, nil
}
