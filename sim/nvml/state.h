/* The record through which the simulated kernel driver tells its state to the
 * libraries of the driver. See ../machine/record.go for the format. */
#ifndef GPUSIM_STATE_H
#define GPUSIM_STATE_H

#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_GPUS 16
#define SIM_MAX_MIG 7 /* instances of one GPU */
#define SIM_MAX_KEYS 160

struct sim_pair {
	char key[48];
	char value[112];
};

struct sim_table {
	int count;
	struct sim_pair pair[SIM_MAX_KEYS];
};

struct sim_gpu {
	struct sim_table table;
	int present; /* described by the record */
	int visible; /* its device node exists where this process runs */
};

struct sim_state {
	uint64_t sequence;
	struct sim_table system;
	struct sim_gpu gpu[SIM_MAX_GPUS];
	int gpus;                  /* described */
	int order[SIM_MAX_GPUS];   /* visible ones, in order of minor number */
	int visible;
};

/* Opens the record of the loaded driver, that of our own version first; -1 when
 * there is none. */
int sim_open(void);
void sim_close(void);
/* Reads the record again when it changed. 0, or -1 when no driver is loaded. */
int sim_refresh(struct sim_state *s);
/* Whether this process may talk to the driver: the control node exists. */
int sim_control_node(void);
/* Value of a key, or fallback when the record does not have it. */
const char *sim_text(const struct sim_table *t, const char *key, const char *fallback);
/* Value as a number; *found (may be NULL) says whether the key was there. */
double sim_number(const struct sim_table *t, const char *key, double fallback, int *found);

#endif
