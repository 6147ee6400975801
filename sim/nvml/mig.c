/* MIG: the mode, the sizes that a GPU can be cut into, its GPU instances with one
 * compute instance each, and the devices that stand for them. See ../machine/mig.go
 * for the record's format. */
#define _GNU_SOURCE
#include "nvml.h"

#include <stdio.h>
#include <string.h>

/* Instance handles are handed out from fixed places: one per GPU and index. */
static struct handle gpu_instances[SIM_MAX_GPUS][SIM_MAX_MIG];
static struct handle compute_instances[SIM_MAX_GPUS][SIM_MAX_MIG];

int mig_at(const struct sim_table *t, int i, struct mig *m)
{
	char key[32];

	snprintf(key, sizeof(key), "mig.instance.%d", i);
	if (sscanf(sim_text(t, key, ""), "%u %u %31s %63s", &m->gi, &m->ci, m->profile, m->uuid) != 4)
		return -1;
	return 0;
}

/* A size by its place in the record; -1 behind the last. */
static int size_at(const struct sim_table *t, int at, char *name, struct size *s)
{
	static const char prefix[] = "mig.profile.";

	for (int i = 0; i < t->count; i++) {
		if (strncmp(t->pair[i].key, prefix, sizeof(prefix) - 1) || at-- > 0)
			continue;
		snprintf(name, 32, "%s", t->pair[i].key + sizeof(prefix) - 1);
		return sscanf(t->pair[i].value, "%u %u %u %u %u %u %u %u %u %u %u", &s->id, &s->number, &s->slices,
			&s->memory_slices, &s->instances, &s->multiprocessors, &s->memory_mib, &s->copy, &s->decoders,
			&s->jpeg, &s->ofa) == 11 ? 0 : -1;
	}
	return -1;
}

int mig_size(const struct sim_table *t, const char *profile, struct size *s)
{
	char name[32];

	for (int i = 0; size_at(t, i, name, s) == 0; i++)
		if (!strcmp(name, profile))
			return 0;
	return -1;
}

EXPORT ret nvmlDeviceGetMigMode(dev_t_ d, uint *current, uint *pending)
{
	ret r = number_u(d, "mig.mode", current);

	if (r == OK)
		*pending = *current;
	return r;
}

EXPORT ret nvmlDeviceGetMaxMigDeviceCount(dev_t_ d, uint *n)
{
	uint mode;
	ret r = number_u(d, "mig.mode", &mode);

	*n = r == OK ? SIM_MAX_MIG : 0;
	return r == NOT_SUPPORTED ? OK : r;
}

EXPORT ret nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ d, uint i, dev_t_ *out)
{
	const struct sim_table *t;
	struct mig m;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	if (i >= SIM_MAX_MIG)
		r = INVALID_ARGUMENT;
	else if (mig_at(t, (int)i, &m) != 0)
		r = NOT_FOUND;
	else
		*out = mig_handle(d->index, (int)i);
	leave();
	return r;
}

EXPORT ret nvmlDeviceIsMigDeviceHandle(dev_t_ d, uint *is)
{
	const struct sim_table *t;
	struct mig m;
	ret r = enter_mig(d, &t, &m);

	if (r == OK)
		leave();
	if (r != OK && r != NOT_A_MIG_DEVICE)
		return r;
	*is = r == OK;
	return OK;
}

EXPORT ret nvmlDeviceGetDeviceHandleFromMigDeviceHandle(dev_t_ d, dev_t_ *out)
{
	const struct sim_table *t;
	struct mig m;
	ret r = enter_mig(d, &t, &m);

	if (r != OK)
		return r == NOT_A_MIG_DEVICE ? INVALID_ARGUMENT : r;
	*out = handle_of(d->index);
	leave();
	return OK;
}

/* Ids of the instances behind a MIG device. */
static ret instance_id(dev_t_ d, int compute, uint *id)
{
	const struct sim_table *t;
	struct mig m;
	ret r = enter_mig(d, &t, &m);

	if (r != OK)
		return r == NOT_A_MIG_DEVICE ? NOT_SUPPORTED : r;
	*id = compute ? m.ci : m.gi;
	leave();
	return OK;
}

EXPORT ret nvmlDeviceGetGpuInstanceId(dev_t_ d, uint *id) { return instance_id(d, 0, id); }
EXPORT ret nvmlDeviceGetComputeInstanceId(dev_t_ d, uint *id) { return instance_id(d, 1, id); }

struct attributes { uint multiprocessors, copy, dec, enc, jpeg, ofa, gi_slices, ci_slices; u64 memory_mib; };
_Static_assert(sizeof(struct attributes) == 40, "nvmlDeviceAttributes_t");

EXPORT ret nvmlDeviceGetAttributes_v2(dev_t_ d, struct attributes *a)
{
	const struct sim_table *t;
	struct size s;
	struct mig m;
	ret r = enter_mig(d, &t, &m);

	if (r != OK)
		return r == NOT_A_MIG_DEVICE ? NOT_SUPPORTED : r;
	r = mig_size(t, m.profile, &s) == 0 ? OK : UNKNOWN;
	if (r == OK)
		*a = (struct attributes){ s.multiprocessors, s.copy, s.decoders, 0, s.jpeg, s.ofa, s.slices, s.slices, s.memory_mib };
	leave();
	return r;
}

struct gi_profile { uint id, p2p, slices, instances, multiprocessors, copy, dec, enc, jpeg, ofa; u64 memory_mib; };
_Static_assert(sizeof(struct gi_profile) == 48, "nvmlGpuInstanceProfileInfo_t");

EXPORT ret nvmlDeviceGetGpuInstanceProfileInfo(dev_t_ d, uint number, struct gi_profile *p)
{
	const struct sim_table *t;
	struct size s;
	char name[32];
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	r = NOT_SUPPORTED;
	for (int i = 0; r != OK && size_at(t, i, name, &s) == 0; i++) {
		if (s.number != number)
			continue;
		*p = (struct gi_profile){ s.id, 0, s.slices, s.instances, s.multiprocessors, s.copy, s.decoders, 0, s.jpeg, s.ofa, s.memory_mib };
		r = OK;
	}
	leave();
	return r;
}

/* Finds the instance of a GPU by its id: the index among the record's, or -1. */
static int by_id(const struct sim_table *t, uint gi, struct mig *m)
{
	for (int i = 0; i < SIM_MAX_MIG && mig_at(t, i, m) == 0; i++)
		if (m->gi == gi)
			return i;
	return -1;
}

EXPORT ret nvmlDeviceGetGpuInstanceById(dev_t_ d, uint gi, struct handle **out)
{
	const struct sim_table *t;
	struct mig m;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	int i = by_id(t, gi, &m);
	if (i < 0) {
		r = NOT_FOUND;
	} else {
		gpu_instances[d->index][i] = (struct handle){ .index = d->index, .mig = i };
		*out = &gpu_instances[d->index][i];
	}
	leave();
	return r;
}

/* Enters the GPU of an instance handle. */
static ret enter_instance(const struct handle *h, const struct sim_table **t, struct mig *m, struct size *s)
{
	ret r = h ? enter(handle_of(h->index), t) : INVALID_ARGUMENT;

	if (r != OK)
		return r;
	if (mig_at(*t, h->mig, m) != 0 || mig_size(*t, m->profile, s) != 0) {
		leave();
		return INVALID_ARGUMENT;
	}
	return OK;
}

struct gi_info { dev_t_ device; uint id, profile, start, size; };

EXPORT ret nvmlGpuInstanceGetInfo(struct handle *h, struct gi_info *info)
{
	const struct sim_table *t;
	struct size s;
	struct mig m;
	ret r = enter_instance(h, &t, &m, &s);

	if (r != OK)
		return r;
	*info = (struct gi_info){ handle_of(h->index), m.gi, s.id, 0, s.memory_slices };
	leave();
	return OK;
}

EXPORT ret nvmlGpuInstanceGetComputeInstanceById(struct handle *h, uint ci, struct handle **out)
{
	const struct sim_table *t;
	struct size s;
	struct mig m;
	ret r = enter_instance(h, &t, &m, &s);

	if (r != OK)
		return r;
	if (m.ci != ci) {
		r = NOT_FOUND;
	} else {
		compute_instances[h->index][h->mig] = *h;
		*out = &compute_instances[h->index][h->mig];
	}
	leave();
	return r;
}

/* NVML's constant for a compute instance of so many slices; also its profile's id. */
static uint compute_profile(uint slices)
{
	return slices == 7 ? 4 : slices - 1;
}

struct ci_info { dev_t_ device; struct handle *gi; uint id, profile, start, size; };

EXPORT ret nvmlComputeInstanceGetInfo_v2(struct handle *h, struct ci_info *info)
{
	const struct sim_table *t;
	struct size s;
	struct mig m;
	ret r = enter_instance(h, &t, &m, &s);

	if (r != OK)
		return r;
	*info = (struct ci_info){ handle_of(h->index), &gpu_instances[h->index][h->mig], m.ci, compute_profile(s.slices), 0, s.slices };
	leave();
	return OK;
}

struct ci_profile { uint id, slices, instances, multiprocessors, copy, dec, enc, jpeg, ofa; };

EXPORT ret nvmlGpuInstanceGetComputeInstanceProfileInfo(struct handle *h, uint number, uint engine, struct ci_profile *p)
{
	const struct sim_table *t;
	struct size s;
	struct mig m;
	ret r = enter_instance(h, &t, &m, &s);

	if (r != OK)
		return r;
	if (engine != 0 || number != compute_profile(s.slices))
		r = NOT_SUPPORTED;
	else
		*p = (struct ci_profile){ number, s.slices, 1, s.multiprocessors, s.copy, s.decoders, 0, s.jpeg, s.ofa };
	leave();
	return r;
}
