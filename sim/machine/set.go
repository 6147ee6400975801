package machine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// kind is what a value may be.
type kind int

const (
	measure   kind = iota // a decimal number, zero or more
	count                 // a whole number, zero or more
	code                  // the code of an XID
	flag                  // true or false
	hang                  // seconds, true or false
	usage                 // pid:bytes or pid:bytes:gi:ci, or empty to remove
	partition             // on, off or a list of MIG profiles; see setMIG
)

// countMax bounds whole numbers and measures: a double holds them exactly.
const countMax = 1 << 53

// codeMax bounds an XID; the vendor's list ends far below.
const codeMax = 99999

// logged is how many XIDs the record remembers: who waits for events and looks
// after more than so many missed the oldest, as with the driver's own queue.
const logged = 12

// settable are the keys that may be changed on a running machine.
func settable() map[string]kind {
	return map[string]kind{
		"temperature": count, "memory-temperature": count, "power": measure, "energy": measure,
		"utilisation.gpu": count, "utilisation.memory": count, "utilisation.encoder": count, "utilisation.decoder": count,
		"memory.used": count, "pstate": count, "throttle": count, "fan": count,
		"clocks.sm": count, "clocks.memory": count, "clocks.graphics": count, "clocks.video": count,
		"ecc.volatile.corrected": count, "ecc.volatile.uncorrected": count,
		"ecc.aggregate.corrected": count, "ecc.aggregate.uncorrected": count,
		"remapped.correctable": count, "remapped.uncorrectable": count, "remapped.pending": count, "remapped.failure": count,
		"retired.sbe": count, "retired.dbe": count, "retired.pending": count,
		"pcie.replay": count, "pcie.tx": count, "pcie.rx": count, "nvlink.tx": count, "nvlink.rx": count,
		"recovery.action": count, "mig": partition, "xid": code, "lost": flag, "hang": hang,
	}
}

// checkText says whether the record can hold a key and its value.
func checkText(key, value string) error {
	if strings.ContainsAny(key+value, "=\n") || len(key) > 47 || len(value) > 111 {
		return fmt.Errorf("value %q of key %q holds a '=' or a newline, or is too long", value, key)
	}
	return nil
}

// checkValue says what is wrong with a model's value.
func checkValue(key, value string) error {
	if err := checkText(key, value); err != nil {
		return err
	}
	if k, known := settable()[key]; known {
		return k.check(key, value)
	}
	return nil
}

// process is what a process on a GPU, or on a partition of it, reads as.
var process = regexp.MustCompile(`^\d{1,10}:\d{1,15}(:\d{1,2}:\d{1,2})?$`)

// check says whether a value is of the kind.
func (k kind) check(key, value string) error {
	sound, want := true, ""
	switch k {
	case measure:
		sound, want = decimal(value), fmt.Sprintf("a number from 0 to %d", countMax)
	case count:
		sound, want = whole(value, countMax), fmt.Sprintf("a whole number from 0 to %d", countMax)
	case code:
		sound, want = whole(value, codeMax), fmt.Sprintf("the code of an XID, 0 to %d", codeMax)
	case flag:
		sound, want = value == "true" || value == "false", "true or false"
	case hang:
		sound, want = value == "true" || value == "false" || decimal(value), "true, false or a number of seconds"
	case usage:
		sound, want = value == "" || process.MatchString(value), "pid:bytes or pid:bytes:gi:ci (empty removes the process)"
	case partition: // by setMIG, which knows the GPU's sizes
	}
	if !sound {
		return fmt.Errorf("value %q of %q is not %s", value, key, want)
	}
	return nil
}

// decimal reports a number from zero to countMax.
func decimal(value string) bool {
	n, err := strconv.ParseFloat(value, 64)
	return err == nil && !math.IsNaN(n) && n >= 0 && n <= countMax
}

// whole reports a whole number from zero to a limit.
func whole(value string, limit uint64) bool {
	n, err := strconv.ParseUint(value, 10, 64)
	return err == nil && n <= limit
}

// Set changes values of one GPU and returns the record with the next sequence
// number. An xid is an event: it is logged with a number of its own, so that the
// same code twice is two events. Energy is settled up to now before power changes.
func Set(r Record, index int, pairs []string, now time.Time) (Record, error) {
	if index < 0 || index >= len(r.GPUs) {
		return r, fmt.Errorf("this machine has GPUs 0 to %d, not %d", len(r.GPUs)-1, index)
	}
	gpu := map[string]string{}
	maps.Copy(gpu, r.GPUs[index])
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			return r, fmt.Errorf("%q is not key=value", p)
		}
		k, known := settable()[key]
		if strings.HasPrefix(key, "process.") {
			k, known = usage, true
		}
		if !known {
			return r, fmt.Errorf("key %q cannot be set; these can: %s, process.<n>", key, strings.Join(Keys(), ", "))
		}
		if err := errors.Join(checkText(key, value), k.check(key, value)); err != nil {
			return r, err
		}
		settleEnergy(gpu, now)
		if k == partition {
			if err := setMIG(gpu, value); err != nil {
				return r, err
			}
			continue
		}
		gpu[key] = value
		if key == "xid" {
			logXID(gpu, value)
		}
		if value == "" {
			delete(gpu, key)
		}
	}
	next := Record{Sequence: r.Sequence + 1, System: r.System, GPUs: append([]map[string]string(nil), r.GPUs...)}
	next.GPUs[index] = gpu
	return next, nil
}

// logXID appends an XID to the GPU's log: xid.sequence counts all that ever were,
// xid.log holds the codes of the newest, oldest first.
func logXID(gpu map[string]string, code string) {
	n, _ := strconv.ParseUint(gpu["xid.sequence"], 10, 64) // absent is 0
	gpu["xid.sequence"] = strconv.FormatUint(n+1, 10)
	log := append(strings.Fields(gpu["xid.log"]), code)
	gpu["xid.log"] = strings.Join(log[max(0, len(log)-logged):], " ")
}

// settleEnergy adds what the recorded power used since it was recorded. Energy is
// in millijoule, power in watt.
func settleEnergy(gpu map[string]string, now time.Time) {
	at, err := strconv.ParseFloat(gpu["energy.at"], 64)
	energy, _ := strconv.ParseFloat(gpu["energy"], 64)
	watts, _ := strconv.ParseFloat(gpu["power"], 64)
	t := float64(now.UnixMicro()) / 1e6
	if err == nil && t > at {
		energy += (t - at) * watts * 1000
	}
	gpu["energy"] = strconv.FormatFloat(energy, 'f', 0, 64)
	gpu["energy.at"] = strconv.FormatFloat(t, 'f', 3, 64)
}
