/* Errors, links, events, processes and MIG's state. */
#define _GNU_SOURCE
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

EXPORT ret nvmlDeviceGetEccMode(dev_t_ d, uint *current, uint *pending)
{
	ret r = number_u(d, "ecc.mode", current);

	*pending = *current;
	return r;
}

EXPORT ret nvmlDeviceGetTotalEccErrors(dev_t_ d, uint kind, uint counter, u64 *v)
{
	static const char *keys[2][2] = {
		{ "ecc.volatile.corrected", "ecc.aggregate.corrected" },
		{ "ecc.volatile.uncorrected", "ecc.aggregate.uncorrected" },
	};

	return kind < 2 && counter < 2 ? number_ull(d, keys[kind][counter], 1, v) : INVALID_ARGUMENT;
}

EXPORT ret nvmlDeviceGetMemoryErrorCounter(dev_t_ d, uint kind, uint counter, uint location, u64 *v)
{
	(void)location;
	return nvmlDeviceGetTotalEccErrors(d, kind, counter, v);
}

EXPORT ret nvmlDeviceGetRemappedRows(dev_t_ d, uint *corrected, uint *uncorrected, uint *pending, uint *failure)
{
	ret r = number_u(d, "remapped.correctable", corrected);

	if (r == OK)
		r = number_u(d, "remapped.uncorrectable", uncorrected);
	if (r == OK)
		r = number_u(d, "remapped.pending", pending);
	return r == OK ? number_u(d, "remapped.failure", failure) : r;
}

static ret retired(dev_t_ d, uint cause, uint *n)
{
	return number_u(d, cause == 0 ? "retired.sbe" : "retired.dbe", n);
}

EXPORT ret nvmlDeviceGetRetiredPages(dev_t_ d, uint cause, uint *n, u64 *addresses)
{
	uint have = 0;
	ret r = retired(d, cause, &have);

	if (r == OK && addresses && *n < have)
		r = INSUFFICIENT_SIZE;
	for (uint i = 0; r == OK && addresses && i < have; i++)
		addresses[i] = 0x1000ull * (i + 1);
	*n = have;
	return r;
}

EXPORT ret nvmlDeviceGetRetiredPages_v2(dev_t_ d, uint cause, uint *n, u64 *addresses, u64 *times)
{
	ret r = nvmlDeviceGetRetiredPages(d, cause, n, addresses);

	for (uint i = 0; r == OK && times && i < *n; i++)
		times[i] = 0;
	return r;
}

EXPORT ret nvmlDeviceGetRetiredPagesPendingStatus(dev_t_ d, uint *v) { return number_u(d, "retired.pending", v); }

EXPORT ret nvmlDeviceGetNvLinkState(dev_t_ d, uint link, uint *active)
{
	uint links = 0;
	ret r = number_u(d, "nvlink.count", &links);

	if (r != OK || link >= links)
		return r != OK ? r : INVALID_ARGUMENT;
	*active = 1;
	return OK;
}

EXPORT ret nvmlDeviceGetNvLinkVersion(dev_t_ d, uint link, uint *v) { (void)link; return number_u(d, "nvlink.version", v); }

/* The links of a board with switches all end at a switch. */
EXPORT ret nvmlDeviceGetNvLinkRemoteDeviceType(dev_t_ d, uint link, uint *v)
{
	uint active = 0;
	ret r = nvmlDeviceGetNvLinkState(d, link, &active);

	if (r == OK)
		*v = 2;
	return r;
}

EXPORT ret nvmlDeviceGetNvLinkRemotePciInfo_v2(dev_t_ d, uint link, struct pci_info *p)
{
	uint active = 0;
	ret r = nvmlDeviceGetNvLinkState(d, link, &active);

	if (r != OK)
		return r;
	memset(p, 0, sizeof(*p));
	p->bus = 0x80 + link % 4;
	snprintf(p->bus_id, sizeof(p->bus_id), "00000000:%02X:00.0", p->bus);
	snprintf(p->bus_id_legacy, sizeof(p->bus_id_legacy), "0000:%02X:00.0", p->bus);
	return OK;
}

/* How two GPUs reach each other: same board 30 (node) or, across sockets, 50. */
EXPORT ret nvmlDeviceGetTopologyCommonAncestor(dev_t_ a, dev_t_ b, uint *level)
{
	uint na = 0, nb = 0;
	ret r = number_u(a, "numa", &na);

	if (r == OK)
		r = number_u(b, "numa", &nb);
	*level = a == b ? 0 : na == nb ? 40 : 50;
	return r;
}

EXPORT ret nvmlDeviceGetP2PStatus(dev_t_ a, dev_t_ b, uint index, uint *status)
{
	(void)a;
	(void)b;
	(void)index;
	*status = 0;
	return OK;
}

/* Fields that the exporter asks for in one call. */
static ret field_value(const struct sim_table *t, struct field *f)
{
	static const struct { uint id; const char *key; } fields[] = {
		{ 82, "memory-temperature" },       /* memory temperature, C */
		{ 90, "nvlink.throughput" },        /* NVLink common throughput */
		{ 91, "nvlink.count" },             /* number of NVLinks */
		{ 138, "nvlink.tx" }, { 139, "nvlink.rx" },
		{ 142, "remapped.correctable" }, { 143, "remapped.uncorrectable" },
		{ 144, "remapped.pending" }, { 145, "remapped.failure" },
		{ 186, "power.instant" },
		{ 0, NULL },
	};
	int found;

	for (int i = 0; fields[i].key; i++) {
		if (fields[i].id != f->id)
			continue;
		double v = sim_number(t, fields[i].key, 0, &found);
		if (!found)
			return NOT_SUPPORTED;
		if (f->id == 138 || f->id == 139 || f->id == 90) {
			f->type = TYPE_ULL;
			f->value.ull = (u64)v;
		} else {
			f->type = TYPE_UINT;
			f->value.ull = 0;
			f->value.ui = (uint)v;
		}
		return OK;
	}
	return NOT_SUPPORTED;
}

EXPORT ret nvmlDeviceGetFieldValues(dev_t_ d, int n, struct field *f)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	for (int i = 0; i < n; i++) {
		f[i].timestamp = (long long)now_us();
		f[i].latency = 0;
		f[i].result = field_value(t, &f[i]);
	}
	leave();
	return OK;
}

/* Processes stand in the record as process.<n>=<pid>:<bytes>. */
static ret processes(dev_t_ d, uint *n, struct process *out)
{
	const struct sim_table *t;
	uint have = 0;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	for (int i = 0; i < t->count; i++) {
		unsigned int pid;
		u64 bytes;

		if (strncmp(t->pair[i].key, "process.", 8) || sscanf(t->pair[i].value, "%u:%llu", &pid, &bytes) != 2)
			continue;
		if (out && have < *n) {
			out[have].pid = pid;
			out[have].memory = bytes;
			out[have].gi = out[have].ci = WHOLE_GPU;
		}
		have++;
	}
	leave();
	r = have > *n ? INSUFFICIENT_SIZE : OK;
	*n = have;
	return r;
}

EXPORT ret nvmlDeviceGetComputeRunningProcesses(dev_t_ d, uint *n, struct process *p) { return processes(d, n, p); }
EXPORT ret nvmlDeviceGetComputeRunningProcesses_v2(dev_t_ d, uint *n, struct process *p) { return processes(d, n, p); }
EXPORT ret nvmlDeviceGetComputeRunningProcesses_v3(dev_t_ d, uint *n, struct process *p) { return processes(d, n, p); }

/* MIG: the mode is told, instances are not simulated. */
EXPORT ret nvmlDeviceGetMigMode(dev_t_ d, uint *current, uint *pending)
{
	ret r = number_u(d, "mig.mode", current);

	*pending = *current;
	return r;
}

EXPORT ret nvmlDeviceGetMaxMigDeviceCount(dev_t_ d, uint *n)
{
	uint mode;
	ret r = number_u(d, "mig.mode", &mode);

	*n = r == OK ? 7 : 0;
	return r == NOT_SUPPORTED ? OK : r;
}

EXPORT ret nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ d, uint i, dev_t_ *out)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	(void)i;
	(void)out;
	if (r != OK)
		return r;
	leave();
	return NOT_FOUND;
}

EXPORT ret nvmlDeviceIsMigDeviceHandle(dev_t_ d, uint *is)
{
	(void)d;
	*is = 0;
	return OK;
}

/* Events: an XID in the record has a number of its own, and each set delivers it
 * once to a device that was registered with it before it happened. */
struct event_set {
	uint registered[SIM_MAX_GPUS];
	u64 seen[SIM_MAX_GPUS];
};

EXPORT ret nvmlEventSetCreate(struct event_set **set)
{
	*set = calloc(1, sizeof(**set));
	return *set ? OK : UNKNOWN;
}

EXPORT ret nvmlEventSetFree(struct event_set *set)
{
	free(set);
	return OK;
}

EXPORT ret nvmlDeviceGetSupportedEventTypes(dev_t_ d, u64 *types)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	*types = EVENT_XID | EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC;
	leave();
	return OK;
}

EXPORT ret nvmlDeviceRegisterEvents(dev_t_ d, u64 types, struct event_set *set)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	set->registered[d->index] = (types & EVENT_XID) != 0;
	set->seen[d->index] = (u64)sim_number(t, "xid.sequence", 0, NULL);
	leave();
	return OK;
}

/* Looks once whether a registered device has an XID that the set has not seen. */
static ret next_event(struct event_set *set, struct event *e)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	r = TIMEOUT;
	for (int i = 0; i < s->gpus && r == TIMEOUT; i++) {
		u64 at = (u64)sim_number(&s->gpu[i].table, "xid.sequence", 0, NULL);

		if (!set->registered[i] || at == set->seen[i])
			continue;
		set->seen[i] = at;
		memset(e, 0, sizeof(*e));
		e->device = handle_of(i);
		e->type = EVENT_XID;
		e->data = (u64)sim_number(&s->gpu[i].table, "xid", 0, NULL);
		e->gi = e->ci = WHOLE_GPU;
		r = OK;
	}
	leave();
	return r;
}

static ret wait_event(struct event_set *set, struct event *e, uint timeout_ms)
{
	u64 end = now_us() + (u64)timeout_ms * 1000;

	for (;;) {
		ret r = next_event(set, e);

		if (r != TIMEOUT || now_us() >= end)
			return r;
		usleep(timeout_ms < 100 ? 5000 : 50000);
	}
}

EXPORT ret nvmlEventSetWait(struct event_set *s, struct event *e, uint ms) { return wait_event(s, e, ms); }
EXPORT ret nvmlEventSetWait_v2(struct event_set *s, struct event *e, uint ms) { return wait_event(s, e, ms); }
