/* Start and end of the library, handles, and the questions about the system. */
#define _GNU_SOURCE
#include "nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x53494d47u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_state state;
static struct handle handles[SIM_MAX_GPUS];
static struct handle mig_handles[SIM_MAX_GPUS][SIM_MAX_MIG];
static int users;

dev_t_ handle_of(int index)
{
	handles[index] = (struct handle){ MAGIC, index, NO_MIG };
	return &handles[index];
}

dev_t_ mig_handle(int index, int mig)
{
	mig_handles[index][mig] = (struct handle){ MAGIC, index, mig };
	return &mig_handles[index][mig];
}

/* Whether a pointer is one that we handed out. */
static int ours(dev_t_ d)
{
	int gpu = d >= handles && d < handles + SIM_MAX_GPUS;
	int mig = d >= &mig_handles[0][0] && d < &mig_handles[0][0] + SIM_MAX_GPUS * SIM_MAX_MIG;

	return (gpu || mig) && d->magic == MAGIC;
}

void leave(void) { pthread_mutex_unlock(&lock); }

u64 now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (u64)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

ret enter_system(struct sim_state **s)
{
	pthread_mutex_lock(&lock);
	if (users == 0) {
		leave();
		return UNINITIALIZED;
	}
	if (sim_refresh(&state) != 0) {
		leave();
		return DRIVER_NOT_LOADED;
	}
	*s = &state;
	return OK;
}

/* Waits out a hang: the record's value says for how many seconds from its own
 * moment ("true" for ever), and a change of the record ends it. When the driver went
 * away meanwhile the caller has left. */
static ret wait_hang(int index)
{
	u64 start = now_us();

	for (;;) {
		const char *v = sim_text(&state.gpu[index].table, "hang", "");
		double seconds = strtod(v, NULL);
		int hanging = !strcmp(v, "true") || (seconds > 0 && now_us() - start < seconds * 1e6);

		if (!hanging)
			return OK;
		leave();
		usleep(20000);
		pthread_mutex_lock(&lock);
		if (sim_refresh(&state) != 0) {
			leave();
			return DRIVER_NOT_LOADED;
		}
	}
}

/* Enters the GPU of a handle, of whichever kind. */
static ret enter_gpu(dev_t_ d, const struct sim_table **t)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	if (!d || !ours(d) || !s->gpu[d->index].present) {
		leave();
		return INVALID_ARGUMENT;
	}
	r = wait_hang(d->index);
	if (r != OK)
		return r;
	if (!strcmp(sim_text(&s->gpu[d->index].table, "lost", ""), "true")) {
		leave();
		return GPU_IS_LOST;
	}
	*t = &s->gpu[d->index].table;
	return OK;
}

ret enter(dev_t_ d, const struct sim_table **t)
{
	ret r = enter_gpu(d, t);

	if (r == OK && d->mig != NO_MIG) {
		leave();
		return NOT_SUPPORTED; /* a question about whole GPUs */
	}
	return r;
}

ret enter_any(dev_t_ d, const struct sim_table **t, struct mig *m)
{
	ret r = enter_gpu(d, t);

	memset(m, 0, sizeof(*m));
	if (r == OK && d->mig != NO_MIG && mig_at(*t, d->mig, m) != 0) {
		leave();
		return INVALID_ARGUMENT; /* destroyed since */
	}
	return r;
}

ret enter_mig(dev_t_ d, const struct sim_table **t, struct mig *m)
{
	ret r = enter_any(d, t, m);

	if (r == OK && d->mig == NO_MIG) {
		leave();
		return NOT_A_MIG_DEVICE;
	}
	return r;
}

ret copy_text(const char *from, char *out, uint size)
{
	if (!out)
		return INVALID_ARGUMENT;
	if (strlen(from) + 1 > size)
		return INSUFFICIENT_SIZE;
	strcpy(out, from);
	return OK;
}

ret text(dev_t_ d, const char *key, char *out, uint size)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	const char *v = sim_text(t, key, NULL);
	r = v ? copy_text(v, out, size) : NOT_SUPPORTED;
	leave();
	return r;
}

ret number_ull(dev_t_ d, const char *key, double scale, u64 *out)
{
	const struct sim_table *t;
	int found;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	double v = sim_number(t, key, 0, &found);
	if (!out)
		r = INVALID_ARGUMENT;
	else if (!found || v < 0)
		r = NOT_SUPPORTED; /* -1 is how a record says "none", as for a NUMA node */
	else
		*out = (u64)(v * scale + 0.5);
	leave();
	return r;
}

ret number_u(dev_t_ d, const char *key, uint *out)
{
	u64 v = 0;
	ret r = number_ull(d, key, 1, &v);

	if (r == OK && !out)
		return INVALID_ARGUMENT;
	if (r == OK)
		*out = (uint)v;
	return r;
}

u64 energy_of(const struct sim_table *t)
{
	double base = sim_number(t, "energy", 0, NULL), at = sim_number(t, "energy.at", 0, NULL);
	double watts = sim_number(t, "power", 0, NULL);
	double now = now_us() / 1e6;

	/* watt x second = joule; the record's unit is millijoule */
	return (u64)(base + (at > 0 && now > at ? (now - at) * watts * 1000 : 0));
}

static ret init(void)
{
	ret r = OK;

	pthread_mutex_lock(&lock);
	state.sequence = 0; /* device nodes may have come since: look again */
	if (!sim_control_node() || sim_open() != 0 || sim_refresh(&state) != 0)
		r = DRIVER_NOT_LOADED;
	else if (strcmp(sim_text(&state.system, "driver_version", ""), DRIVER_VERSION) != 0)
		r = LIB_RM_VERSION_MISMATCH;
	else
		users++;
	if (users == 0)
		sim_close();
	leave();
	return r;
}

EXPORT ret nvmlInit(void) { return init(); }
EXPORT ret nvmlInit_v2(void) { return init(); }
EXPORT ret nvmlInitWithFlags(uint flags) { (void)flags; return init(); }

EXPORT ret nvmlShutdown(void)
{
	ret r = OK;

	pthread_mutex_lock(&lock);
	if (users == 0)
		r = UNINITIALIZED;
	else if (--users == 0)
		sim_close();
	leave();
	return r;
}

EXPORT const char *nvmlErrorString(ret r)
{
	switch (r) {
	case OK: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NOT_SUPPORTED: return "Not Supported";
	case NO_PERMISSION: return "Insufficient Permissions";
	case NOT_FOUND: return "Not Found";
	case INSUFFICIENT_SIZE: return "Insufficient Size";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case TIMEOUT: return "Timeout";
	case GPU_IS_LOST: return "GPU is lost";
	case LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
	}
	return "Unknown Error";
}

static ret system_text(const char *key, char *out, uint size)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	r = copy_text(sim_text(&s->system, key, ""), out, size);
	leave();
	return r;
}

EXPORT ret nvmlSystemGetDriverVersion(char *v, uint n) { return system_text("driver_version", v, n); }
EXPORT ret nvmlSystemGetNVMLVersion(char *v, uint n) { return system_text("nvml_version", v, n); }

static ret cuda_version(int *v)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	*v = (int)sim_number(&s->system, "cuda_version", 0, NULL);
	leave();
	return OK;
}

EXPORT ret nvmlSystemGetCudaDriverVersion(int *v) { return cuda_version(v); }
EXPORT ret nvmlSystemGetCudaDriverVersion_v2(int *v) { return cuda_version(v); }

static ret count(uint *n)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	*n = (uint)s->visible;
	leave();
	return OK;
}

EXPORT ret nvmlDeviceGetCount(uint *n) { return count(n); }
EXPORT ret nvmlDeviceGetCount_v2(uint *n) { return count(n); }

static ret by_index(uint i, dev_t_ *d)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	if (i >= (uint)s->visible)
		r = INVALID_ARGUMENT;
	else if (!strcmp(sim_text(&s->gpu[s->order[i]].table, "lost", ""), "true"))
		r = GPU_IS_LOST;
	else
		*d = handle_of(s->order[i]);
	leave();
	return r;
}

EXPORT ret nvmlDeviceGetHandleByIndex(uint i, dev_t_ *d) { return by_index(i, d); }
EXPORT ret nvmlDeviceGetHandleByIndex_v2(uint i, dev_t_ *d) { return by_index(i, d); }

/* Finds a visible device by a text of its table, letter case ignored. */
static ret by_text(const char *key, const char *want, dev_t_ *d)
{
	struct sim_state *s;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	r = NOT_FOUND;
	for (int i = 0; i < s->visible; i++) {
		if (strcasecmp(sim_text(&s->gpu[s->order[i]].table, key, ""), want) != 0)
			continue;
		r = strcmp(sim_text(&s->gpu[s->order[i]].table, "lost", ""), "true") ? OK : GPU_IS_LOST;
		*d = handle_of(s->order[i]);
	}
	leave();
	return r;
}

static ret by_mig_uuid(const char *uuid, dev_t_ *d)
{
	struct sim_state *s;
	struct mig m;
	ret r = enter_system(&s);

	if (r != OK)
		return r;
	r = NOT_FOUND;
	for (int i = 0; i < s->visible; i++)
		for (int k = 0; k < SIM_MAX_MIG && mig_at(&s->gpu[s->order[i]].table, k, &m) == 0; k++)
			if (!strcasecmp(m.uuid, uuid)) {
				*d = mig_handle(s->order[i], k);
				r = OK;
			}
	leave();
	return r;
}

EXPORT ret nvmlDeviceGetHandleByUUID(const char *uuid, dev_t_ *d)
{
	return strncmp(uuid, "MIG-", 4) ? by_text("uuid", uuid, d) : by_mig_uuid(uuid, d);
}

EXPORT ret nvmlDeviceGetHandleBySerial(const char *serial, dev_t_ *d) { return by_text("serial", serial, d); }

static ret by_bus(const char *bus, dev_t_ *d)
{
	char full[32];
	uint domain, b, dev;

	/* 0000:19:00.0 and 00000000:19:00.0 name the same device */
	if (sscanf(bus, "%x:%x:%x", &domain, &b, &dev) != 3)
		return INVALID_ARGUMENT;
	snprintf(full, sizeof(full), "%08X:%02X:%02X.0", domain, b, dev);
	return by_text("pci.bus_id", full, d);
}

EXPORT ret nvmlDeviceGetHandleByPciBusId(const char *b, dev_t_ *d) { return by_bus(b, d); }
EXPORT ret nvmlDeviceGetHandleByPciBusId_v2(const char *b, dev_t_ *d) { return by_bus(b, d); }

EXPORT ret nvmlDeviceGetIndex(dev_t_ d, uint *out)
{
	struct sim_state *s;
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	s = &state;
	r = NOT_FOUND;
	for (int i = 0; i < s->visible; i++)
		if (s->order[i] == d->index) {
			*out = (uint)i;
			r = OK;
		}
	leave();
	return r;
}
