/* Errors, links, events and processes. */
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
	const struct sim_table *t;
	ret r = OK;

	(void)index;
	for (int i = 0; r == OK && i < 2; i++) {
		r = enter(i ? b : a, &t);
		if (r == OK)
			leave();
	}
	if (r == OK)
		*status = 0;
	return r;
}

/* Fields that the exporter asks for in one call. */
static ret field_value(const struct sim_table *t, struct field *f)
{
	static const struct { uint id; const char *key; double scale; int type; } fields[] = {
		{ 82, "memory-temperature", 1, TYPE_UINT },       /* degrees Celsius */
		{ 90, "nvlink.speed", 1, TYPE_UINT },             /* of each link, MB/s */
		{ 91, "nvlink.count", 1, TYPE_UINT },
		{ 138, "nvlink.tx", 1, TYPE_ULL },                /* KiB since load */
		{ 139, "nvlink.rx", 1, TYPE_ULL },
		{ 142, "remapped.correctable", 1, TYPE_UINT },
		{ 143, "remapped.uncorrectable", 1, TYPE_UINT },
		{ 144, "remapped.pending", 1, TYPE_UINT },
		{ 145, "remapped.failure", 1, TYPE_UINT },
		{ 185, "power", 1000, TYPE_UINT },                /* average, milliwatt */
		{ 186, "power", 1000, TYPE_UINT },                /* of this moment */
		{ 230, "recovery.action", 1, TYPE_UINT },         /* drivers since 565 */
		{ 0, NULL, 0, 0 },
	};
	int found;

	for (int i = 0; fields[i].key; i++) {
		if (fields[i].id != f->id)
			continue;
		double v = sim_number(t, fields[i].key, 0, &found);
		if (!found)
			return NOT_SUPPORTED;
		f->type = fields[i].type;
		f->value.ull = 0;
		if (f->type == TYPE_ULL)
			f->value.ull = (u64)v;
		else
			f->value.ui = (uint)(v * fields[i].scale + 0.5);
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

/* Processes stand in the record as process.<n>=<pid>:<bytes>[:<gi>:<ci>]. Reads the
 * pair at i; 0 when it is not a process. */
static int process_at(const struct sim_table *t, int i, struct process *p)
{
	p->gi = p->ci = WHOLE_GPU;
	return !strncmp(t->pair[i].key, "process.", 8) &&
		sscanf(t->pair[i].value, "%u:%llu:%u:%u", &p->pid, &p->memory, &p->gi, &p->ci) >= 2;
}

u64 processes_memory(const struct sim_table *t, uint gi)
{
	struct process p;
	u64 sum = 0;

	for (int i = 0; i < t->count; i++)
		if (process_at(t, i, &p) && (gi == WHOLE_GPU || gi == p.gi))
			sum += p.memory;
	return sum;
}

static ret processes(dev_t_ d, uint *n, struct process *out)
{
	const struct sim_table *t;
	struct process p;
	struct mig m;
	uint have = 0;
	ret r = enter_any(d, &t, &m);

	if (r != OK)
		return r;
	for (int i = 0; i < t->count; i++) {
		if (!process_at(t, i, &p) || (m.uuid[0] && (p.gi != m.gi || p.ci != m.ci)))
			continue;
		if (out && have < *n)
			out[have] = p;
		have++;
	}
	leave();
	r = have > *n ? INSUFFICIENT_SIZE : OK;
	*n = have;
	return r;
}

/* The first version has no instance ids and another layout: nobody asks for it who
 * knows one of these. */
EXPORT ret nvmlDeviceGetComputeRunningProcesses_v2(dev_t_ d, uint *n, struct process *p) { return processes(d, n, p); }
EXPORT ret nvmlDeviceGetComputeRunningProcesses_v3(dev_t_ d, uint *n, struct process *p) { return processes(d, n, p); }

/* Events: each XID has a number of its own (xid.sequence counts them), and a set
 * delivers it once to a device that was registered with it before it happened. The
 * record keeps the newest codes (xid.log); who looks too late missed the others. */
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

/* The code of the first XID after number *seen, which becomes its number; -1 when
 * there is none. */
static long next_xid(const struct sim_table *t, u64 *seen)
{
	u64 last = (u64)sim_number(t, "xid.sequence", 0, NULL);
	char log[sizeof(t->pair[0].value)];
	long codes[sizeof(log) / 2];
	char *save;
	u64 n = 0;

	if (last <= *seen)
		return -1;
	snprintf(log, sizeof(log), "%s", sim_text(t, "xid.log", ""));
	for (char *c = strtok_r(log, " ", &save); c; c = strtok_r(NULL, " ", &save))
		codes[n++] = strtol(c, NULL, 10);
	if (n == 0 || n > last)
		return -1;
	if (*seen < last - n)
		*seen = last - n;
	return codes[n - (last - (*seen)++)];
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
		long code = set->registered[i] ? next_xid(&s->gpu[i].table, &set->seen[i]) : -1;

		if (code < 0)
			continue;
		memset(e, 0, sizeof(*e));
		e->device = handle_of(i);
		e->type = EVENT_XID;
		e->data = (u64)code;
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
