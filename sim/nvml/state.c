#define _GNU_SOURCE
#include "state.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef DRIVER_VERSION
#error "DRIVER_VERSION must be the version of the driver that this library is part of"
#endif

#define RECORD_MAX (256 * 1024)
#define HEADER_MAX 64

/* Root of the driver that this library belongs to, found from the library's own
 * path: "" for the running system, "/host" for a library opened as
 * /host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1. */
static const char *driver_root(void)
{
	static char root[PATH_MAX];
	static int known;
	static const char *dirs[] = { "/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/",
		"/usr/lib64/", "/lib/x86_64-linux-gnu/", "/lib/aarch64-linux-gnu/", "/lib64/", "/usr/lib/", NULL };
	Dl_info info;

	if (known)
		return root;
	known = 1;
	if (!dladdr((void *)driver_root, &info) || !info.dli_fname || info.dli_fname[0] != '/')
		return root;
	for (int i = 0; dirs[i]; i++) {
		const char *at = strstr(info.dli_fname, dirs[i]);
		if (at && (size_t)(at - info.dli_fname) < sizeof(root)) {
			memcpy(root, info.dli_fname, at - info.dli_fname);
			root[at - info.dli_fname] = 0;
			break;
		}
	}
	return root;
}

/* Directory that holds the device nodes: the driver root's own /dev, else that of
 * the nearest directory above it which has one (a driver root below /host/run
 * belongs to the devices in /host/dev), else /dev. */
static const char *dev_root(void)
{
	static char dev[PATH_MAX + 64];
	char at[PATH_MAX], node[PATH_MAX + 32];

	snprintf(at, sizeof(at), "%s", driver_root());
	for (;;) {
		snprintf(node, sizeof(node), "%s/dev/nvidiactl", at);
		if (access(node, F_OK) == 0)
			break;
		char *slash = strrchr(at, '/');
		if (!slash) {
			at[0] = 0;
			break;
		}
		*slash = 0;
	}
	snprintf(dev, sizeof(dev), "%s/dev", at);
	return dev;
}

int sim_control_node(void)
{
	char node[PATH_MAX + 96];

	snprintf(node, sizeof(node), "%s/nvidiactl", dev_root());
	return access(node, F_OK) == 0;
}

/* Opens <root>/lib/firmware/nvidia/<version>/gsp_sim.bin: that of our own version,
 * else of any other, so that a library beside another version's module can say so. */
static int open_record(void)
{
	char dir[PATH_MAX + 64], file[PATH_MAX + 400];
	struct dirent *e;
	DIR *d;
	int fd = -1;

	snprintf(dir, sizeof(dir), "%s/lib/firmware/nvidia", driver_root());
	snprintf(file, sizeof(file), "%s/" DRIVER_VERSION "/gsp_sim.bin", dir);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	d = opendir(dir);
	if (!d)
		return -1;
	while (fd < 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/gsp_sim.bin", dir, e->d_name);
		fd = open(file, O_RDONLY | O_CLOEXEC);
	}
	closedir(d);
	return fd;
}

static void put(struct sim_table *t, const char *key, const char *value)
{
	if (t->count >= SIM_MAX_KEYS)
		return;
	snprintf(t->pair[t->count].key, sizeof(t->pair[0].key), "%s", key);
	snprintf(t->pair[t->count].value, sizeof(t->pair[0].value), "%s", value);
	t->count++;
}

const char *sim_text(const struct sim_table *t, const char *key, const char *fallback)
{
	for (int i = 0; i < t->count; i++)
		if (!strcmp(t->pair[i].key, key))
			return t->pair[i].value;
	return fallback;
}

double sim_number(const struct sim_table *t, const char *key, double fallback, int *found)
{
	const char *v = sim_text(t, key, NULL);

	if (found)
		*found = v && *v;
	return v && *v ? strtod(v, NULL) : fallback;
}

/* FNV-1a, 32 bit: tells a record read in the middle of a write. */
static uint32_t checksum(const char *p, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++) {
		h ^= (unsigned char)p[i];
		h *= 16777619u;
	}
	return h;
}

static void parse(struct sim_state *s, char *body)
{
	char *save, *line;

	memset(&s->system, 0, sizeof(s->system));
	memset(s->gpu, 0, sizeof(s->gpu));
	s->gpus = 0;
	for (line = strtok_r(body, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *eq = strchr(line, '=');
		int index, at = 0;

		if (!eq)
			continue;
		*eq = 0;
		if (sscanf(line, "gpu.%d.%n", &index, &at) == 1 && at > 0 && index >= 0 && index < SIM_MAX_GPUS) {
			s->gpu[index].present = 1;
			if (index >= s->gpus)
				s->gpus = index + 1;
			put(&s->gpu[index].table, line + at, eq + 1);
		} else if (!strncmp(line, "system.", 7)) {
			put(&s->system, line + 7, eq + 1);
		}
	}
}

/* Only GPUs whose device node exists are visible, as a container's device cgroup
 * and its /dev make it on a real machine; they are numbered anew from 0. */
static void look(struct sim_state *s)
{
	char node[PATH_MAX + 96];
	const char *dev = dev_root();

	s->visible = 0;
	for (int i = 0; i < s->gpus; i++) {
		int minor = (int)sim_number(&s->gpu[i].table, "minor", i, NULL);

		snprintf(node, sizeof(node), "%s/nvidia%d", dev, minor);
		s->gpu[i].visible = s->gpu[i].present && access(node, F_OK) == 0;
		if (s->gpu[i].visible)
			s->order[s->visible++] = i;
	}
}

/* The record stays open while the library is in use: that is how the simulated
 * kernel knows who uses the driver, as open device nodes tell a real one. */
static int record = -1;

int sim_open(void)
{
	if (record < 0)
		record = open_record();
	return record < 0 ? -1 : 0;
}

void sim_close(void)
{
	if (record >= 0)
		close(record);
	record = -1;
}

int sim_refresh(struct sim_state *s)
{
	char header[HEADER_MAX + 1];
	unsigned long long sequence;
	unsigned int length, sum;
	int fd = record;

	if (fd < 0)
		return -1;
	for (int tries = 0; tries < 1000; tries++) {
		ssize_t n = pread(fd, header, HEADER_MAX, 0);

		if (n < HEADER_MAX)
			break;
		header[n] = 0;
		if (sscanf(header, "gpusim 1 %llu %u %x", &sequence, &length, &sum) != 3 || length > RECORD_MAX)
			break;
		if (s->sequence == sequence)
			return 0;
		char *body = malloc(length + 1);
		if (!body)
			break;
		n = pread(fd, body, length, HEADER_MAX);
		if (n == (ssize_t)length && checksum(body, length) == sum) {
			body[length] = 0;
			parse(s, body);
			free(body);
			look(s);
			s->sequence = sequence;
			return 0;
		}
		free(body);
		usleep(500);
	}
	return -1;
}
