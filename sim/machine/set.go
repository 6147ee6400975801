package machine

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// kind is what a value may be.
type kind int

const (
	number kind = iota
	flag        // true or false
	hang        // seconds, true or false
	word        // any text
	usage       // pid:bytes, or empty to remove
)

// settable are the keys that may be changed on a running machine.
func settable() map[string]kind {
	return map[string]kind{
		"temperature": number, "memory-temperature": number, "power": number, "energy": number,
		"utilisation.gpu": number, "utilisation.memory": number, "utilisation.encoder": number, "utilisation.decoder": number,
		"memory.used": number, "pstate": number, "throttle": number, "fan": number,
		"clocks.sm": number, "clocks.memory": number, "clocks.graphics": number, "clocks.video": number,
		"ecc.volatile.corrected": number, "ecc.volatile.uncorrected": number,
		"ecc.aggregate.corrected": number, "ecc.aggregate.uncorrected": number,
		"remapped.correctable": number, "remapped.uncorrectable": number, "remapped.pending": number, "remapped.failure": number,
		"retired.sbe": number, "retired.dbe": number, "retired.pending": number,
		"pcie.replay": number, "pcie.tx": number, "pcie.rx": number, "nvlink.tx": number, "nvlink.rx": number,
		"mig.mode": number, "xid": number, "lost": flag, "hang": hang,
	}
}

// checkValue says what is wrong with a model's value.
func checkValue(key, value string) error {
	if strings.ContainsAny(key+value, "=\n") || len(key) > 47 || len(value) > 111 {
		return fmt.Errorf("value %q of key %q holds a '=' or a newline, or is too long", value, key)
	}
	if k, known := settable()[key]; known {
		return k.check(key, value)
	}
	return nil
}

// check says whether a value is of the kind.
func (k kind) check(key, value string) error {
	switch k {
	case number:
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("value %q of %q is not a number", value, key)
		}
	case flag:
		if value != "true" && value != "false" {
			return fmt.Errorf("value %q of %q is not true or false", value, key)
		}
	case hang:
		if value == "true" || value == "false" {
			return nil
		}
		if n, err := strconv.ParseFloat(value, 64); err != nil || n < 0 {
			return fmt.Errorf("value %q of %q is not true, false or a number of seconds", value, key)
		}
	case usage:
		var pid, bytes uint64
		if n, _ := fmt.Sscanf(value, "%d:%d", &pid, &bytes); value != "" && n != 2 {
			return fmt.Errorf("value %q of %q is not pid:bytes (empty removes the process)", value, key)
		}
	}
	return nil
}

// Set changes values of one GPU and returns the record with the next sequence
// number. An xid is an event: it gets a number of its own, so that the same code
// twice is two events. Energy is settled up to now before power changes.
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
		if err := k.check(key, value); err != nil {
			return r, err
		}
		settleEnergy(gpu, now)
		gpu[key] = value
		if key == "xid" {
			n, _ := strconv.ParseUint(gpu["xid.sequence"], 10, 64) // absent is 0
			gpu["xid.sequence"] = strconv.FormatUint(n+1, 10)
		}
		if value == "" {
			delete(gpu, key)
		}
	}
	next := Record{Sequence: r.Sequence + 1, System: r.System, GPUs: append([]map[string]string(nil), r.GPUs...)}
	next.GPUs[index] = gpu
	return next, nil
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
