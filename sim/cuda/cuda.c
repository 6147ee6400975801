/* libcuda.so.1 of the simulated driver: enough to initialise CUDA and to count
 * and describe devices, which is what readiness checks ask. */
#include "../nvml/state.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, SYSTEM_NOT_READY = 802, UNKNOWN = 999 };

static struct sim_state state;
static int initialized;

EXPORT int cuInit(unsigned int flags)
{
	if (flags != 0)
		return INVALID_VALUE;
	if (!sim_control_node() || sim_open() != 0 || sim_refresh(&state) != 0 || state.visible == 0)
		return NO_DEVICE;
	initialized = 1;
	return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version)
{
	if (!version)
		return INVALID_VALUE;
	if (sim_open() != 0 || sim_refresh(&state) != 0)
		return NO_DEVICE;
	*version = (int)sim_number(&state.system, "cuda_version", 0, NULL);
	return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
	if (!initialized)
		return NOT_INITIALIZED;
	*count = state.visible;
	return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	if (!initialized)
		return NOT_INITIALIZED;
	if (ordinal < 0 || ordinal >= state.visible)
		return INVALID_DEVICE;
	*device = ordinal;
	return SUCCESS;
}

static const struct sim_table *table(int device)
{
	if (!initialized || device < 0 || device >= state.visible)
		return NULL;
	return &state.gpu[state.order[device]].table;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
	const struct sim_table *t = table(device);

	if (!t)
		return INVALID_DEVICE;
	if (size < 1)
		return INVALID_VALUE;
	strncpy(name, sim_text(t, "name", ""), (size_t)size - 1);
	name[size - 1] = 0;
	return SUCCESS;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	const struct sim_table *t = table(device);

	if (!t)
		return INVALID_DEVICE;
	*bytes = (size_t)sim_number(t, "memory.total", 0, NULL);
	return SUCCESS;
}

EXPORT int cuDeviceTotalMem(size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }

EXPORT int cuGetErrorString(int error, const char **text)
{
	switch (error) {
	case SUCCESS: *text = "no error"; return SUCCESS;
	case NO_DEVICE: *text = "no CUDA-capable device is detected"; return SUCCESS;
	case NOT_INITIALIZED: *text = "initialization error"; return SUCCESS;
	case INVALID_DEVICE: *text = "invalid device ordinal"; return SUCCESS;
	}
	*text = "unknown error";
	return INVALID_VALUE;
}
